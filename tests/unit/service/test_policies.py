"""Tests how many policies a process reads in a round trip, and how many it remembers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from bridge.model.errors import StoreUnavailable
from bridge.model.values import Policy
from bridge.service import policies as module
from bridge.service.policies import Policies
from bridge.store.keys import Keys
from bridge.store.policies import write_policy

KEYS = Keys("delay")
PAUSED = write_policy(Policy(paused=True))


class Redis:
    """Has the policy of the topic `paused` only. `trips`: the number of commands in each round trip."""

    def __init__(self) -> None:
        self.trips: list[int] = []
        self.away = False

    async def command(self, *words: Any) -> Any:
        return (await self.commands([words]))[0]

    async def commands(self, commands: Sequence[Sequence[Any]]) -> list[Any]:
        if self.away:
            raise StoreUnavailable("away")
        self.trips.append(len(commands))
        return [PAUSED if words == ("GET", KEYS.policy("paused")) else None for words in commands]


class Broker:
    def know_direct(self, topic: str, direct: bool) -> None: ...

    async def ensure_topic(self, topic: str) -> None: ...


@pytest.fixture
def redis() -> Redis:
    return Redis()


@pytest.fixture
def policies(redis: Redis) -> Policies:
    return Policies(redis, KEYS, Broker())  # type: ignore[arg-type]


async def test_policies_of_many_topics_are_read_a_thousand_in_a_round_trip(redis: Redis, policies: Policies) -> None:
    topics = ["paused", *(f"t-{number}" for number in range(2_499))]
    found = await policies.seen_all(topics)

    assert redis.trips == [1_000, 1_000, 500]
    assert [policy.paused for policy in found] == [True, *[False] * 2_499]
    # They are known for two seconds.
    assert await policies.seen_all([*topics, "other"]) == [*found, Policy()]
    assert await policies.seen("paused") == found[0]
    assert redis.trips == [1_000, 1_000, 500, 1]


async def test_policy_that_was_read_counts_while_redis_is_away(
    redis: Redis, policies: Policies, monkeypatch: pytest.MonkeyPatch
) -> None:
    paused = await policies.seen("paused")
    monkeypatch.setattr(module, "_FRESH_S", -1)
    redis.away = True

    assert await policies.seen("paused") == paused
    with pytest.raises(StoreUnavailable):
        await policies.seen("unknown")


async def test_process_remembers_a_limited_number_of_policies(redis: Redis, policies: Policies) -> None:
    topics = [f"t-{number}" for number in range(module.MOST_POLICIES + 5)]
    await policies.seen_all(topics)
    for topic in topics[:10]:
        await policies.used(topic)

    assert len(policies._seen) == module.MOST_POLICIES
    assert len(policies._used) == 10
