"""Tests settling for a pull: results by topic and in order, and what a server that is away leaves settled."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from bridge.model.errors import BrokerUnavailable, Conflict, NotFound, StoreUnavailable
from bridge.model.values import AckResult, AckVerdict, Nack, Settled, SettledLease
from bridge.service.protocol import receipts
from bridge.service.settlements import Settlements, ToSettle, settle
from tests.records import record

RECEIPT = receipts.make(receipts.Receipt("o-1", 1, 1))


class _Settling:
    """A service of leases. Redis is away for the topic `no redis`, and RabbitMQ for `no rabbitmq`. `settled`: the
    topics whose leases were settled."""

    def __init__(self) -> None:
        self.settled: list[str] = []

    async def ack_receipts(self, topic: str, given: Sequence[str]) -> list[AckResult]:
        if topic == "no redis":
            raise StoreUnavailable("Redis is away")
        await asyncio.sleep(0)
        self.settled.append(topic)
        return [AckResult(id=f"{one} of {topic}", verdict=AckVerdict.ACKED) for one in given]

    async def nack_receipts(self, topic: str, nacks: Sequence[Nack]) -> list[Any]:
        await asyncio.sleep(0)
        self.settled.append(topic)
        if topic == "no rabbitmq":
            return [BrokerUnavailable("RabbitMQ is away"), *[record()] * (len(nacks) - 1)]
        return [record(), Conflict("it has ended"), NotFound("there is none")][: len(nacks)]


async def test_results_are_in_the_order_of_the_request() -> None:
    settled = await settle(
        _Settling(),  # type: ignore[arg-type]
        ToSettle(
            acks=[("b", "1"), ("a", "2"), ("b", "3")],
            nacks=[("a", Nack(receipt=RECEIPT)), ("a", Nack(receipt="no receipt")), ("b", Nack(receipt=RECEIPT))],
        ),
    )
    assert settled == Settlements(
        acked=[SettledLease(id=one, result=Settled.ACKED) for one in ("1 of b", "2 of a", "3 of b")],
        nacked=[
            SettledLease(id="o-1", result=Settled.NACKED),
            SettledLease(id=None, result=Settled.STALE),
            SettledLease(id="o-1", result=Settled.NACKED),
        ],
    )


@pytest.mark.parametrize(
    ("to_settle", "error", "settled"),
    [
        (ToSettle(acks=[("no redis", RECEIPT), ("orders", RECEIPT)]), StoreUnavailable, ["orders"]),
        (
            ToSettle(acks=[("no redis", RECEIPT)], nacks=[("orders", Nack(receipt=RECEIPT))]),
            StoreUnavailable,
            ["orders"],
        ),
        (
            ToSettle(acks=[("orders", RECEIPT)], nacks=[("no rabbitmq", Nack(receipt=RECEIPT))] * 2),
            BrokerUnavailable,
            ["orders", "no rabbitmq"],
        ),
    ],
)
async def test_server_that_is_away_for_one_lease_refuses_after_the_others_are_settled(
    to_settle: ToSettle, error: type[Exception], settled: list[str]
) -> None:
    settling = _Settling()
    with pytest.raises(error):
        await settle(settling, to_settle)  # type: ignore[arg-type]
    assert settling.settled == settled


async def test_settling_nothing_asks_nobody() -> None:
    assert await settle(_Settling(), ToSettle()) == Settlements()  # type: ignore[arg-type]
    assert await settle(_Settling(), ToSettle(acks=[], nacks=[])) == Settlements(acked=[], nacked=[])  # type: ignore[arg-type]
