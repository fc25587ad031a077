"""Tests which leases have no lease copy at first, and how many."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from bridge.model.message import Copy, Envelope
from bridge.service.pulling import unacked_leases
from bridge.service.pulling.unacked_leases import LARGEST, UnackedLeases

AFTER_MS = 2_000


def leases(after_ms: int = AFTER_MS) -> UnackedLeases:
    context: Any = SimpleNamespace(
        part_name=str,
        store=None,
        records=None,
        broker=SimpleNamespace(releases=None),
        settings=SimpleNamespace(lease_copy_after=after_ms),
    )
    return UnackedLeases(context)


def copy(*, message_id: str = "o-1", epoch: int = 2, body: bytes = b"1") -> Copy:
    numbers = {"nonce": 2, "attempt": 1, "max_retry": 3, "due_ms": 5, "expires_ms": 0, "created_ms": 5}
    return Copy(topic="orders", id=message_id, epoch=epoch, **numbers, envelope=Envelope(body=body))


@pytest.mark.parametrize(
    ("epoch", "lease_ms", "body_bytes", "fits"),
    [
        (1, 30_000, 1, True),
        (1, 2 * AFTER_MS + 1, 1, True),
        (1, 2 * AFTER_MS, 1, False),
        (1, 30_000, LARGEST, True),
        (1, 30_000, LARGEST + 1, False),
        (0, 30_000, 1, False),  # an AMQP client's own message
    ],
)
def test_short_lease_large_body_and_clients_own_message_do_not_fit(
    epoch: int, lease_ms: int, body_bytes: int, fits: bool
) -> None:
    assert leases().fits(copy(epoch=epoch, body=b"x" * body_bytes), lease_ms) is fits


async def test_room_is_bounded_for_each_queue_and_for_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unacked_leases, "MOST", 3)
    monkeypatch.setattr(unacked_leases, "MOST_OF_QUEUE", 2)
    found = leases()
    rooms = []
    for number, queue in enumerate(["ready.a", "ready.a", "ready.b"]):
        rooms.append((found.room("ready.a"), found.room("ready.b")))
        delivery: Any = SimpleNamespace(queue=queue)
        found.add(copy(message_id=str(number)), delivery, 30_000)
    rooms.append((found.room("ready.a"), found.room("ready.b")))
    assert rooms == [(2, 2), (1, 2), (0, 1), (0, 0)]
    assert found._running is not None
    found._running.cancel()
    await asyncio.wait([found._running])


def test_there_is_no_room_if_every_lease_has_its_copy_at_once() -> None:
    assert leases(after_ms=0).room("ready.a") == 0
