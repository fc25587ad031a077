"""Tests how many declared topics a process remembers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from bridge.broker.declared import declared as module
from bridge.broker.declared.declared import Declared
from topology.names import Names


class Declarer:
    """Accepts every plan. `applied`: the queues declared."""

    def __init__(self) -> None:
        self.applied: list[str] = []

    async def exists(self, queue: str) -> bool:
        return True

    async def apply(self, plan: Any, *, existed: bool = False) -> None:
        self.applied += [queue.name for queue in plan.queues]


async def nothing(**_: Any) -> None: ...


@pytest.fixture
def declarer() -> Declarer:
    return Declarer()


@pytest.fixture
def declared(declarer: Declarer) -> Declared:
    connection: Any = SimpleNamespace(generation=1, raw_connection=nothing)
    declared = Declared(connection, Names(), delivery_limit=20, publishers=())
    declared._declarer = declarer  # type: ignore[assignment]
    declared.lanes.refresh = nothing  # type: ignore[method-assign]
    return declared


async def test_a_process_remembers_a_limited_number_of_declared_topics(
    declared: Declared, declarer: Declarer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_TOPICS", 3)
    for topic in ("a", "b", "c", "a"):
        await declared.ensure_topic(topic)
    assert [declared.has_topic(topic) for topic in "abcd"] == [True, True, True, False]
    assert declarer.applied.count("ready.a") == 1

    await declared.ensure_topic("d")
    assert [declared.has_topic(topic) for topic in "abcd"] == [False, False, False, True]
    await declared.ensure_topic("a")
    assert declarer.applied.count("ready.a") == 2
