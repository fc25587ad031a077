"""Explores each scenario for a limited number of states, looks for each planted defect, and calls every script."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest

from bridge.local.redis import RedisNode
from tests.explore.every_call import arrows
from tests.explore.planted import PLANTED, Planted
from tests.explore.scenarios import SCENARIOS, Scenario
from tests.explore.search import Found, search
from tests.explore.stored import Stored
from tests.life_table import TABLE
from tests.matrix.servers import Servers

STATES: Final = 4_000
NIGHTLY_STATES: Final = 40_000
"""Of each scenario; over 100,000 in all, or over a million. `make explore` visits more."""

TO_FIND: Final = 60_000
"""More than the search needs for any planted defect."""

QUICK: Final = frozenset(
    (
        "a copy ahead is believed though its message waits for a later moment",
        "a copy whose verdict no rule names is dropped",
        "a message has any number of deliveries",
        "a message that is asked about ahead is released at once",
        "a move forgets the delivery in place of a lease copy",
        "a new record leaves a forgotten one of its id in the indexes",
        "a record leaves its former index",
        "a recorded ack ends a message that waits for its first delivery",
        "a repeated send makes a second message once the first has ended",
        "a successor is named before it is published",
        "a successor that RabbitMQ refused is named",
        "the copy of a lease that was extended ends it",
        "the copy of an ended message is no ghost",
        "the time to live of a message cuts its lease short",
    )
)
"""Defects that the search finds within a few thousand states. The nightly run looks for the others too."""


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


@pytest.mark.parametrize("defect", [defect for defect in PLANTED if defect.scenario], ids=lambda defect: defect.name)
def test_planted_defect_is_found(redis: RedisNode, pytestconfig: pytest.Config, defect: Planted) -> None:
    if defect.name not in QUICK and not pytestconfig.getoption("--nightly"):
        pytest.skip("the nightly run looks for it")
    (scenario,) = (one for one in SCENARIOS if one.name == defect.scenario)
    with defect.planted() as texts, closing(Stored(redis.port, texts)) as stored:
        found = search(scenario, stored, most=TO_FIND)
    assert found.broken
    assert found.broken.startswith(defect.promise), _as_text(found)


def test_headers_name_each_move_of_a_record_that_some_call_makes_and_no_other_one(redis: RedisNode) -> None:
    with closing(Stored(redis.port)) as stored:
        made = arrows(stored)
    assert made.keys() == TABLE.arrows.keys()


@pytest.mark.parametrize("defect", PLANTED, ids=lambda defect: defect.name)
def test_code_still_has_the_rule_that_a_defect_takes_away(defect: Planted) -> None:
    with defect.planted():
        pass
