"""Tests what an ack and a batch of nacks ask of Redis, and what they answer."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock

import pytest

from bridge.model.errors import Conflict, LeaseEnded, NotFound
from bridge.model.message import Record, State
from bridge.model.values import Nack
from bridge.service.protocol import receipts
from bridge.service.pulling.unacked_leases import UnackedLeases
from bridge.service.reading.lookup import Lookup
from bridge.service.reading.portions import PORTION_BYTES
from bridge.service.settling import Settling
from bridge.store.calls import Call
from bridge.store.keys import Keys
from bridge.store.messages.records import Records

RECEIPT = receipts.make(receipts.Receipt("o-1", 3, 3))


class OneTrip:
    """A Redis that is asked once. `answers`: the verdict, the state and the extra for each script."""

    def __init__(self, **answers: tuple[str, State | None, bytes | int]) -> None:
        self.answers = answers
        self.clock = SimpleNamespace(now_ms=lambda: 0.0)
        self.asked: list[list[str]] = []

    async def run(self, calls: Sequence[Call[Any]]) -> list[Any]:
        self.asked.append([call.script.name for call in calls])
        return [call.read(call, self._answer(*self.answers[call.script.name])) for call in calls]

    async def run_both(self, one: Call[Any], other: Call[Any]) -> list[Any]:
        return await self.run([one, other])

    run_each = run

    def _answer(self, verdict: str, state: State | None, extra: bytes | int) -> list[Any]:
        fields = [] if state is None else [int(state), *[3] * 12, b""]
        return [verdict.encode(), 1, extra or 0, *fields]


def settling(store: OneTrip) -> Settling:
    records = Records(keys=Keys("delay"), retention_ms=1, tombstone_ms=2)
    context: Any = SimpleNamespace(
        part_name=str,
        store=store,
        records=records,
        topics=SimpleNamespace(policy=AsyncMock()),
        broker=SimpleNamespace(copy_publisher=None, releases=None),
        settings=SimpleNamespace(lease_copy_after=0),
    )
    return Settling(context, lookup=Lookup(context), unacked=UnackedLeases(context))


async def test_an_ack_answers_with_the_message_after_one_round_trip() -> None:
    store = OneTrip(ack=("acked", State.ACKED, b""), look=("found", State.ACKED, b"\n{}"))
    message = await settling(store).ack("orders", "o-1", RECEIPT)

    assert store.asked == [["ack", "look"]]
    assert message.record.state is State.ACKED
    assert message.envelope is not None
    assert message.envelope.body == b"{}"


async def test_an_ack_shows_the_end_even_if_the_look_ran_first() -> None:
    # A call whose script Redis has lost runs behind the others.
    store = OneTrip(ack=("acked", State.ACKED, b""), look=("found", State.LEASED, b""))

    assert (await settling(store).ack("orders", "o-1", RECEIPT)).record.state is State.ACKED


async def test_an_ack_after_the_lease_end_is_refused() -> None:
    store = OneTrip(ack=("stale", State.READY, b""), look=("found", State.READY, b""))

    with pytest.raises(LeaseEnded, match="ready"):
        await settling(store).ack("orders", "o-1", RECEIPT)


async def test_an_ack_of_a_message_that_is_not_leased_is_refused() -> None:
    store = OneTrip(ack=("not_leased", State.WAITING, b""), look=("found", State.WAITING, b""))

    with pytest.raises(Conflict, match="not leased: it is waiting"):
        await settling(store).ack("orders", "o-1", None)


async def test_an_ack_of_an_unknown_id_is_refused() -> None:
    store = OneTrip(ack=("unknown", None, b""), look=("unknown", None, b""))

    with pytest.raises(NotFound):
        await settling(store).ack("orders", "o-1", None)


async def test_nacks_read_a_portion_of_the_bodies_at_a_time() -> None:
    leased = State.LEASED
    store = OneTrip(
        weigh=("found", leased, PORTION_BYTES // 2),
        look=("found", leased, b""),
        nack=("nacked", State.WAITING, b""),
    )
    given = [receipts.make(receipts.Receipt(one, 3, 3)) for one in ("o-1", "o-2", "o-3", "o-1")]
    results = await settling(store).nack_receipts("orders", [Nack(receipt=one, delay_ms=1) for one in given])

    assert store.asked == [["weigh"] * 4, ["look"] * 2, ["nack"] * 2, ["look"] * 2, ["nack"]]
    *nacked, again = results
    assert [isinstance(one, Record) for one in nacked] == [True] * 3
    assert isinstance(again, LeaseEnded)
