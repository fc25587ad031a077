"""Tests the order in which a step is carried out, and what follows each failure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from bridge.broker.publications import Publication, Route
from bridge.model.errors import BrokerUnavailable, StoreUnavailable, UnnamedVerdict
from bridge.model.message import Copy, Envelope
from bridge.service.protocol.succession import Step, Succession, named
from bridge.store.calls import Call
from bridge.store.keys import Keys
from bridge.store.messages.outcomes import NoRule, Outcome
from bridge.store.messages.records import Records
from bridge.store.messages.verdicts import LeaseVerdict, LookVerdict

UNNAMED = UnnamedVerdict("defer")
AWAY = StoreUnavailable("away")
REFUSED = BrokerUnavailable("refused")
RECORDS = Records(keys=Keys("delay"), retention_ms=1, tombstone_ms=2)


class Servers:
    """Logs what steps ask of RabbitMQ and Redis. `refused`: ids whose publish fails. `answers`: the verdicts of each
    round trip to Redis, in order; after the last, every call is answered with `leased`."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.refused: set[str] = set()
        self.answers: list[list[str] | Exception] = []

    async def publish(self, publications: Sequence[Publication]) -> list[BrokerUnavailable | None]:
        self.log.append("publish " + " ".join(f"{one.route.value}:{one.copy.id}" for one in publications))
        return [REFUSED if one.copy.id in self.refused else None for one in publications]

    async def run(self, calls: Sequence[Call[Any]]) -> list[Any]:
        announcing = calls[0].script.name == "announce"
        self.log.append(("announce " if announcing else "name ") + " ".join(call.message_id for call in calls))
        verdicts = self.answers.pop(0) if self.answers else ["leased"] * len(calls)
        if isinstance(verdicts, Exception):
            raise verdicts
        return [call.read(call, [verdict.encode(), 0, 0]) for call, verdict in zip(calls, verdicts, strict=True)]

    async def run_each(self, calls: Sequence[Call[Any]]) -> list[Any]:
        try:
            return await self.run(calls)
        except NoRule:
            return [UNNAMED, *(call.read(call, [b"leased", 0, 0]) for call in calls[1:])]


class Delivery:
    """The taken copy of one message. It is its own acknowledger, and its delivery tag is its id."""

    queue = "ready.orders"

    def __init__(self, servers: Servers, message_id: str) -> None:
        self._log, self.delivery_tag = servers.log, message_id
        self.message = self.acknowledger = self

    async def ack(self, tags: list[str]) -> None:
        self._log.append("ack " + " ".join(tags))

    async def requeue(self, tag: str | None = None) -> None:
        self._log.append(f"requeue {tag or self.delivery_tag}")


@pytest.fixture
def servers() -> Servers:
    return Servers()


@pytest.fixture
def succession(servers: Servers) -> Succession:
    return Succession(servers, servers)  # type: ignore[arg-type]


def publication(message_id: str, route: Route = Route.WHEEL) -> Publication:
    copy = Copy(
        topic="orders",
        id=message_id,
        epoch=1,
        nonce=1,
        attempt=1,
        max_retry=1,
        due_ms=0,
        expires_ms=0,
        created_ms=0,
        envelope=Envelope(),
    )
    return Publication(copy=copy, route=route)


def lease(message_id: str) -> Call[Outcome[LeaseVerdict]]:
    return RECORDS.lease(publication(message_id).copy, next_nonce=9, lease_ms=1, arrives_in_ms=1)


def step(servers: Servers, message_id: str, **others: Any) -> Step[Any]:
    return Step(
        publication=publication(message_id),
        name=lease(message_id),
        delivery=Delivery(servers, message_id),  # type: ignore[arg-type]
        **others,
    )


async def test_a_batch_is_published_then_named_then_acknowledged_together(
    servers: Servers, succession: Succession
) -> None:
    results = await succession.perform([step(servers, "a"), step(servers, "b")])

    assert servers.log == ["publish wheel:a wheel:b", "name a b", "ack a", "ack b"]
    assert [named(result).verdict for result in results] == [LeaseVerdict.LEASED, LeaseVerdict.LEASED]


async def test_an_empty_step_asks_no_server(servers: Servers, succession: Succession) -> None:
    assert await succession.perform([Step()]) == [None]
    assert servers.log == []


def announced(servers: Servers, message_id: str, **others: Any) -> Step[Any]:
    copy = publication(message_id).copy
    return step(servers, message_id, announce=RECORDS.announce(copy, arrives_ms=1, now_ms=0), **others)


async def test_copies_are_announced_together_before_the_first_is_published(
    servers: Servers, succession: Succession
) -> None:
    servers.answers = [["announced", "unknown"]]
    await succession.perform([announced(servers, "a"), step(servers, "b"), announced(servers, "c")])

    assert servers.log[:3] == ["announce a c", "publish wheel:a wheel:b wheel:c", "name a b c"]


async def test_a_copy_that_was_not_announced_is_not_published(servers: Servers, succession: Succession) -> None:
    servers.answers = [AWAY]
    back: Step[Any] = Step(publication=publication("back", Route.READY), delivery=Delivery(servers, "a"))  # type: ignore[arg-type]
    results = await succession.perform(
        [announced(servers, "a", instead=lambda _: back), announced(servers, "b"), step(servers, "c")]
    )

    assert results[:2] == [AWAY, AWAY]
    assert named(results[2]).verdict is LeaseVerdict.LEASED
    assert servers.log == [
        "announce a b",
        "requeue b",
        "publish ready:back",
        "ack a",
        "publish wheel:c",
        "name c",
        "ack c",
    ]


async def test_a_copy_that_was_not_published_is_never_named_and_its_delivery_is_requeued(
    servers: Servers, succession: Succession
) -> None:
    servers.refused = {"a"}
    refused, outcome = await succession.perform([step(servers, "a"), step(servers, "b")])

    assert refused is REFUSED
    assert named(outcome).verdict is LeaseVerdict.LEASED
    assert servers.log == ["publish wheel:a wheel:b", "requeue a", "name b", "ack b"]


async def test_the_alternative_takes_over_the_delivery_after_a_failed_publish(
    servers: Servers, succession: Succession
) -> None:
    servers.refused = {"a"}
    delivery: Any = Delivery(servers, "a")
    back: Step[Any] = Step(publication=publication("back", Route.READY), delivery=delivery)
    (result,) = await succession.perform([step(servers, "a", instead=lambda _: back)])

    assert result is REFUSED
    assert servers.log == ["publish wheel:a", "publish ready:back", "ack a"]


async def test_deliveries_are_put_back_when_redis_does_not_answer(servers: Servers, succession: Succession) -> None:
    servers.answers = [AWAY]
    back: Step[Any] = Step(publication=publication("back", Route.READY), delivery=Delivery(servers, "b"))  # type: ignore[arg-type]
    results = await succession.perform([step(servers, "a"), step(servers, "b", instead=lambda _: back)])

    assert results == [AWAY, AWAY]
    assert servers.log == [
        "publish wheel:a wheel:b",
        "name a b",
        "requeue a",
        "publish ready:back",
        "ack b",
    ]


async def test_what_no_rule_names_is_put_back_and_holds_up_no_other(servers: Servers, succession: Succession) -> None:
    servers.answers = [["defer", "leased"]]
    results = await succession.perform([step(servers, "a"), step(servers, "b")])

    assert results[0] is UNNAMED
    assert named(results[1]).verdict is LeaseVerdict.LEASED
    assert servers.log == ["publish wheel:a wheel:b", "name a b", "requeue a", "ack b"]


async def test_a_claim_is_not_abandoned_when_redis_does_not_answer(servers: Servers, succession: Succession) -> None:
    servers.answers = [AWAY]
    name = lease("a")
    (result,) = await succession.perform(
        [Step(publication=publication("a"), name=name, instead=lambda _: Step(name=name))]
    )

    assert result is AWAY
    assert servers.log == ["publish wheel:a", "name a"]


async def test_a_copy_ahead_of_its_record_is_asked_about_again(servers: Servers, succession: Succession) -> None:
    servers.answers = [["leased", "ahead"], ["ahead"], ["leased"]]
    results = await succession.perform([step(servers, "a"), step(servers, "b")])

    assert [named(result).verdict for result in results] == [LeaseVerdict.LEASED, LeaseVerdict.LEASED]
    assert servers.log[1:4] == ["name a b", "name b", "name b"]


async def test_a_step_that_follows_the_outcome_comes_before_the_acknowledgement(
    servers: Servers, succession: Succession
) -> None:
    servers.answers = [["hold", "leased"]]

    def park(outcome: Outcome[Any]) -> Step[Any] | None:
        if outcome.verdict is not LeaseVerdict.HOLD:
            return None
        return Step(publication=publication("parked"), delivery=Delivery(servers, "a"))  # type: ignore[arg-type]

    await succession.perform([step(servers, "a", then=park), step(servers, "b", then=park)])

    assert servers.log == ["publish wheel:a wheel:b", "name a b", "publish wheel:parked", "ack a", "ack b"]


async def test_the_outcome_of_a_step_that_follows_is_the_result(servers: Servers, succession: Succession) -> None:
    servers.answers = [["ghost", "leased"], ["unknown"]]

    def look(outcome: Outcome[Any]) -> Step[Any] | None:
        return None if outcome.verdict is LeaseVerdict.LEASED else Step(name=RECORDS.look("orders", "c"))

    results = await succession.perform([step(servers, "a", then=look), step(servers, "b", then=look)])

    assert [named(result).verdict for result in results] == [LookVerdict.UNKNOWN, LeaseVerdict.LEASED]


async def test_a_delivery_is_requeued_when_a_call_fails_by_our_fault(servers: Servers, succession: Succession) -> None:
    servers.answers = [ValueError("a fault of ours")]

    with pytest.raises(ValueError, match="a fault of ours"):
        await succession.perform([step(servers, "a")])
    assert servers.log == ["publish wheel:a", "name a", "requeue a"]


async def test_perform_one_raises_the_error_of_its_step(servers: Servers, succession: Succession) -> None:
    servers.refused = {"a"}

    with pytest.raises(BrokerUnavailable, match="refused"):
        await succession.perform_one(step(servers, "a"))
