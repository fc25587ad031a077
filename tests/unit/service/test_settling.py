"""Tests what an ack asks of Redis, and what it answers."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from bridge.model.errors import Conflict, LeaseEnded, NotFound
from bridge.model.message import State
from bridge.service.protocol import receipts
from bridge.service.pulling.unacked_leases import UnackedLeases
from bridge.service.settling import Settling
from bridge.store.calls import Call
from bridge.store.keys import Keys
from bridge.store.messages.records import Records

RECEIPT = receipts.make(receipts.Receipt("o-1", 3, 3))


class OneTrip:
    """A Redis that is asked once. `answers`: the verdict and the state for each script."""

    def __init__(self, **answers: tuple[str, State | None, bytes]) -> None:
        self.answers = answers
        self.asked: list[list[str]] = []

    async def run(self, calls: Sequence[Call[Any]]) -> list[Any]:
        self.asked.append([call.script.name for call in calls])
        return [call.read(call, self._answer(*self.answers[call.script.name])) for call in calls]

    async def run_both(self, one: Call[Any], other: Call[Any]) -> list[Any]:
        return await self.run([one, other])

    def _answer(self, verdict: str, state: State | None, extra: bytes) -> list[Any]:
        fields = [] if state is None else [int(state), *[3] * 12, b""]
        return [verdict.encode(), 1, extra or 0, *fields]


def settling(store: OneTrip) -> Settling:
    records = Records(keys=Keys("delay"), retention_ms=1, tombstone_ms=2)
    context: Any = SimpleNamespace(
        part_name=str,
        store=store,
        records=records,
        topics=None,
        broker=SimpleNamespace(copy_publisher=None, releases=None),
        settings=SimpleNamespace(lease_copy_after=0),
    )
    return Settling(context, lookup=None, unacked=UnackedLeases(context))  # type: ignore[arg-type]


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
