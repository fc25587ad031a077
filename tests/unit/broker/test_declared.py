"""Tests how many declared topics a process remembers, and that it declares several together."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from bridge.broker.declared import topic_queues as module
from bridge.broker.declared.declared import Declared
from bridge.broker.declared.topic_queues import everything
from bridge.model.errors import BrokerUnavailable
from topology.names import Names
from topology.plan import Plan


class Declarer:
    """Accepts every plan without the queue `refused`. `applied`: the queues declared. `times`: how often."""

    def __init__(self) -> None:
        self.applied: list[str] = []
        self.times = 0
        self.refused = ""

    async def exists(self, queue: str) -> bool:
        return True

    async def missing(self, plan: Any) -> Plan:
        return Plan()

    async def apply(self, plan: Any, *, existed: bool = False) -> None:
        await asyncio.sleep(0)
        queues = [queue.name for queue in plan.queues]
        if self.refused in queues:
            raise BrokerUnavailable(f"the broker refuses {self.refused}")
        self.applied += queues
        self.times += 1


async def nothing(**_: Any) -> None: ...


@pytest.fixture
def declarer() -> Declarer:
    return Declarer()


@pytest.fixture
def declared(declarer: Declarer) -> Declared:
    connection: Any = SimpleNamespace(generation=1, raw_connection=nothing)
    declared = Declared(connection, Names(), delivery_limit=20, publishers=(), listed=everything)
    declared._declarer = declared._ready._declarer = declared.wheel._declarer = declarer  # type: ignore[assignment]
    declared.wheel.lanes.refresh = nothing  # type: ignore[method-assign]
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


async def test_topics_that_are_first_used_at_the_same_time_are_declared_together(
    declared: Declared, declarer: Declarer
) -> None:
    await declared.wheel.ensure()
    before = declarer.times
    await asyncio.gather(*(declared.ensure_topic(f"t-{number % 20}") for number in range(60)))
    assert declarer.times - before == 1
    assert declarer.applied.count("ready.t-7") == 1


async def test_a_topic_that_the_broker_refuses_does_not_fail_the_others(declared: Declared, declarer: Declarer) -> None:
    declarer.refused = "ready.t-7"
    topics = [f"t-{number}" for number in range(20)]
    results = await asyncio.gather(*(declared.ensure_topic(topic) for topic in topics), return_exceptions=True)
    assert [topic for topic, result in zip(topics, results, strict=True) if result is not None] == ["t-7"]
    assert [topic for topic in topics if not declared.has_topic(topic)] == ["t-7"]
