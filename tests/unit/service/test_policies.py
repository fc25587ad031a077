"""Tests how many policies a process reads in a round trip, and how many it remembers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

import pytest

from bridge.model.errors import BrokerUnavailable, Conflict, StoreUnavailable
from bridge.model.values import Policy
from bridge.service.topics import policies as module
from bridge.service.topics.policies import Policies
from bridge.store.calls import Call
from bridge.store.kept.policies import write_policy
from bridge.store.keys import Keys
from tests.effective import DEFAULTS, effective

KEYS = Keys("delay")
PAUSED = write_policy(Policy(paused=True))


class Redis:
    """Has the policy of the topic `paused` only. `trips`: the number of commands in each round trip."""

    def __init__(self) -> None:
        self.trips: list[int] = []
        self.away = False
        self.taken = 0  # the answer of the script that counts topics

    async def command(self, *words: Any) -> Any:
        return (await self.commands([words]))[0]

    async def commands(self, commands: Sequence[Sequence[Any]]) -> list[Any]:
        if self.away:
            raise StoreUnavailable("away")
        self.trips.append(len(commands))
        return [PAUSED if words == ("GET", KEYS.policy("paused")) else None for words in commands]

    async def run(self, calls: Sequence[Call[Any]]) -> list[Any]:
        await self.commands([(call.script.name,) for call in calls])
        return [self.taken for _ in calls]


class Broker:
    """Has the queues of the topics in `queues`, except those that another process has removed."""

    def __init__(self) -> None:
        self.queues: set[str] = set()
        self.removed: set[str] = set()
        self.away = False

    def know_direct(self, topic: str, direct: bool) -> None: ...

    async def ensure_topic(self, topic: str) -> None:
        self.queues.add(topic)

    def forget_topics(self, topics: Iterable[str]) -> None:
        self.queues -= self.removed & set(topics)

    async def finds_topic(self, topic: str) -> bool:
        if self.away:
            raise BrokerUnavailable("away")
        return topic in self.queues


class Maker:
    token_id = "0f4c19a2b7de"
    max_topics = 5

    def refuse(self, topic: str, made: int) -> NoReturn:
        raise Conflict(f"{topic} {made}")


MAKER = Maker()


@pytest.fixture
def redis() -> Redis:
    return Redis()


@pytest.fixture
def broker() -> Broker:
    return Broker()


@pytest.fixture
def policies(redis: Redis, broker: Broker) -> Policies:
    return Policies(redis, KEYS, broker, DEFAULTS)  # type: ignore[arg-type]


async def test_policies_of_many_topics_are_read_a_thousand_in_a_round_trip(redis: Redis, policies: Policies) -> None:
    topics = ["paused", *(f"t-{number}" for number in range(2_499))]
    found = await policies.seen_all(topics)

    assert redis.trips == [1_000, 1_000, 500]
    assert [policy.paused for policy in found] == [True, *[False] * 2_499]
    # They are known for two seconds.
    assert await policies.seen_all([*topics, "other"]) == [*found, effective()]
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


async def test_topic_that_is_used_after_its_policy_was_read_is_only_put_on_the_list(
    redis: Redis, policies: Policies
) -> None:
    paused = await policies.seen("paused")
    assert await policies.used("paused") is paused
    assert redis.trips == [1, 1]  # the policy, the list
    assert await policies.used("paused") is paused
    assert redis.trips == [1, 1]

    # Both reads count from the moment at which the policy was read.
    assert policies._used.get("paused") == policies._seen.get("paused")


async def test_only_a_maker_costs_a_round_trip_and_only_while_its_topic_is_not_known(
    redis: Redis, policies: Policies
) -> None:
    await policies.used("free")
    assert redis.trips == [1, 1]
    await policies.used("limited", MAKER)
    assert redis.trips[2:] == [1, 2, 1]  # the count, the list with the place, the policy
    for topic in ("free", "limited"):
        await policies.used(topic, MAKER)
    assert len(redis.trips) == 5


async def test_topic_that_its_maker_may_not_make_is_not_made(redis: Redis, broker: Broker, policies: Policies) -> None:
    redis.taken = 5
    with pytest.raises(Conflict, match="new 5"):
        await policies.used("new", MAKER)
    assert (redis.trips, broker.queues) == ([1], set())

    broker.away = True
    with pytest.raises(BrokerUnavailable):
        await policies.used("new", MAKER)


async def test_topic_whose_queues_rabbitmq_has_is_no_new_one(redis: Redis, broker: Broker, policies: Policies) -> None:
    redis.taken = 5
    broker.queues = {"lost"}
    assert await policies.used("lost", MAKER) == effective()


async def test_topic_that_another_process_removed_is_counted_again(
    redis: Redis, broker: Broker, policies: Policies, monkeypatch: pytest.MonkeyPatch
) -> None:
    await policies.used("known", MAKER)
    monkeypatch.setattr(module, "_FRESH_S", -1)
    redis.taken, broker.removed = 5, {"known"}
    with pytest.raises(Conflict):
        await policies.used("known", MAKER)


async def test_topic_is_not_made_uncounted_while_redis_is_away(
    redis: Redis, broker: Broker, policies: Policies, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = await policies.used("paused", MAKER)
    monkeypatch.setattr(module, "_FRESH_S", -1)
    redis.away = True

    assert await policies.used("paused", MAKER) == known
    with pytest.raises(StoreUnavailable):
        await policies.used("new", MAKER)
    assert broker.queues == {"paused"}
