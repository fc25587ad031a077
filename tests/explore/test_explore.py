"""Explores each scenario for a limited number of states, looks for each planted defect, and calls every script."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from bridge.local.redis import RedisNode
from tests.explore.every_call import arrows
from tests.explore.planted import PLANTED, Planted
from tests.explore.scenarios import SCENARIOS, Scenario
from tests.explore.search import Found, search
from tests.explore.stored import Stored
from tests.life_table import TABLE
from tests.matrix.servers import Servers

STATES = 4_000
NIGHTLY_STATES = 40_000
"""Of each scenario; over 100,000 in all, or over a million. `make explore` visits more."""

TO_FIND = 60_000
"""More than the search needs for any planted defect."""


@pytest.fixture(scope="module")
def redis(local_dir: Path, servers: Servers) -> Iterator[RedisNode]:
    """A Redis for these tests alone, which empty it for each state."""
    with servers.redis_node(local_dir / "redis-to-explore", appendfsync="everysec") as node:
        yield node


def _as_text(found: Found) -> str:
    return "\n".join([found.broken, *found.path])


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_every_promise_holds_in_every_state(redis: RedisNode, pytestconfig: pytest.Config, scenario: Scenario) -> None:
    most = NIGHTLY_STATES if pytestconfig.getoption("--nightly") else STATES
    with closing(Stored(redis.port)) as stored:
        found = search(scenario, stored, most=most)
    assert not found.broken, _as_text(found)
    assert found.closed or found.states == most


@pytest.mark.parametrize("defect", PLANTED, ids=lambda defect: defect.name)
def test_planted_defect_is_found(redis: RedisNode, defect: Planted) -> None:
    (scenario,) = (one for one in SCENARIOS if one.name == defect.scenario)
    with defect.planted() as texts, closing(Stored(redis.port, texts)) as stored:
        found = search(scenario, stored, most=TO_FIND)
    assert found.broken
    assert found.broken.startswith(defect.promise), _as_text(found)


def test_headers_name_each_move_of_a_record_that_some_call_makes_and_no_other_one(redis: RedisNode) -> None:
    with closing(Stored(redis.port)) as stored:
        made = arrows(stored)
    assert made.keys() == TABLE.arrows.keys()
