"""Logs what steps ask of RabbitMQ and Redis, and answers as a test wants."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bridge.broker.publications import Publication, Route
from bridge.model.errors import BrokerUnavailable, StoreUnavailable, UnnamedVerdict
from bridge.model.message import Copy, Envelope
from bridge.service.protocol.steps import Succeed
from bridge.store.calls import Call
from bridge.store.keys import Keys
from bridge.store.messages.outcomes import NoRule, Outcome
from bridge.store.messages.records import Records
from bridge.store.messages.verdicts import LeaseVerdict

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


def succeed(message_id: str, *, announced: bool = False) -> Succeed[LeaseVerdict]:
    copy = publication(message_id)
    announce = RECORDS.announce(copy.copy, arrives_ms=1, now_ms=0) if announced else None
    return Succeed(copy, lease(message_id), announce)
