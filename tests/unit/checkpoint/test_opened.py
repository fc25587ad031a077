"""Tests what the checkpoint takes out of a bundle at a moment, and what it puts back into the wheel."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from time import time
from typing import Any

import pytest

from bridge.broker.client.delivery import Delivery
from bridge.broker.copies import bundles
from bridge.broker.copies.bundles import Entry
from bridge.broker.copies.classify import Bundle, Due, Unusable
from bridge.broker.copies.entries import encode
from bridge.broker.copies.open_bundle import OpenBundle
from bridge.loops.checkpoint.opened import OpenedBundles, step_of
from bridge.model.message import Copy, CopyKind, Envelope
from bridge.settings.settings import Settings

NOW_MS = 1_769_850_000_000


class Parked:
    """Notes what is left of the delays of copies that are to be parked again."""

    def __init__(self) -> None:
        self.left_ms: list[float] = []
        self.ended = False

    def add(self, _bundle: OpenBundle, entries: Iterable[tuple[Entry, float]]) -> None:
        self.left_ms += [left_ms for _, left_ms in entries]

    def end(self) -> None:
        self.ended = True


@pytest.fixture
def parked() -> Parked:
    return Parked()


def opened(parked: Any, **settings: Any) -> OpenedBundles:
    return OpenedBundles(Settings(**settings), parked)


def arrived(*left_ms: int, kind: CopyKind = CopyKind.CHECKED, tag: int = 7) -> Bundle:
    copies = [
        Copy(
            topic="orders",
            id=f"due-in-{left}",
            epoch=1,
            nonce=1,
            attempt=1,
            max_retry=3,
            due_ms=NOW_MS + left,
            expires_ms=0,
            created_ms=NOW_MS,
            envelope=Envelope(body=b"{}"),
        )
        for left in left_ms
    ]
    (packed,) = bundles.pack("orders", [Entry(copy.due_ms, encode(copy) or b"") for copy in copies])
    message = Delivery(
        acknowledger=None,  # type: ignore[arg-type]
        delivery_tag=tag,
        routing_key="",
        properties=packed.properties,
        body=packed.body,
    )
    return Bundle(tag, message, "orders", kind, NOW_MS + min(left_ms), len(left_ms), 0)


def seen(found: Iterable[tuple[object, float]]) -> list[tuple[str, float]]:
    return [(one.copy.id if isinstance(one, Due) else type(one).__name__, for_ms) for one, for_ms in found]


def test_due_copies_are_taken_near_ones_wait_and_far_ones_are_parked(parked: Parked) -> None:
    taking = opened(parked)

    assert seen(taking.take(arrived(0, 5, 6, 900, 1_001, 60_000), NOW_MS, NOW_MS, 0)) == [
        ("due-in-0", 0),
        ("due-in-5", 0),
        ("OpenBundle", 1),
    ]
    assert parked.left_ms == [1_001, 60_000]
    assert taking.refs.copies == 2


def test_copies_of_leases_are_taken_at_their_moment(parked: Parked) -> None:
    assert seen(opened(parked).take(arrived(0, 5, kind=CopyKind.LEASE), NOW_MS, NOW_MS, 0)) == [
        ("due-in-0", 0),
        ("OpenBundle", 5),
    ]


def test_bundle_is_acknowledged_after_its_last_copy_is_done_or_parked(parked: Parked) -> None:
    taking = opened(parked)
    list(taking.take(arrived(0, 60_000), NOW_MS, NOW_MS, 0))

    assert taking.refs.done([7]) == []
    assert taking.refs.parked([7]) == [7]


def test_without_bundles_all_copies_are_asked_about_so_that_they_go_on_alone(parked: Parked) -> None:
    found = seen(opened(parked, bundles=False).take(arrived(0, 150, 60_000), NOW_MS, NOW_MS, 0))

    assert found == [("due-in-0", 0), ("due-in-150", 145), ("due-in-60000", 0)]
    assert parked.left_ms == []


def test_no_copies_are_read_while_too_many_are_unfinished(parked: Parked) -> None:
    taking = opened(parked, checkpoint_batch=1)
    for tag in range(1, 100):
        bundle = arrived(*range(-256, 0), tag=tag)
        found = list(taking.take(bundle, NOW_MS, NOW_MS, 0))
        if found == [(bundle, 500)]:
            break

    assert taking.refs.copies + 256 > 16_384
    assert taking.refs.copies <= 16_384 + 3


def test_process_that_stops_parks_what_is_left(parked: Parked) -> None:
    taking = opened(parked)
    list(taking.take(arrived(0, 300, 700), NOW_MS, NOW_MS, 0))

    taking.park_all(NOW_MS + 100)
    assert parked.left_ms == [200, 600]
    assert parked.ended


def test_bundle_without_a_readable_index_is_put_aside(parked: Parked) -> None:
    bundle = arrived(0, 1)
    bundle.original.properties.headers["x-delay-bundle"] = 3  # type: ignore[index]

    ((unusable, for_ms),) = opened(parked).take(bundle, NOW_MS, NOW_MS, 0)
    assert isinstance(unusable, Unusable)
    assert for_ms == 0


HOUR_MS = 3_600_000


@pytest.mark.parametrize(
    ("late_ms", "in_queue_ms", "ahead_ms", "step_ms"),
    [
        (HOUR_MS, 0, 2 * HOUR_MS, HOUR_MS),
        (HOUR_MS, 0, 60_000, 60_000),
        (HOUR_MS, 0, 0, 0),
        (HOUR_MS, 600_000, 2 * HOUR_MS, 3_000_000),
        (HOUR_MS, 2 * HOUR_MS, 2 * HOUR_MS, 0),
        (HOUR_MS, None, 2 * HOUR_MS, 0),
        (-HOUR_MS, 0, 2 * HOUR_MS, 0),
    ],
)
def test_step_is_what_neither_the_queue_nor_an_outage_explains(
    late_ms: float, in_queue_ms: float | None, ahead_ms: float, step_ms: float
) -> None:
    assert step_of(late_ms, in_queue_ms, ahead_ms) == step_ms


def test_late_bundle_is_taken_by_the_clock_that_wrote_it_after_a_step(parked: Parked) -> None:
    died = {"queue": "a slot", "reason": "expired", "count": 1, "time": datetime.fromtimestamp(time() + 60, UTC)}
    bundle = replace(arrived(0, 5, 30_000), waited_ms=30_000)
    assert bundle.original.properties.headers is not None
    bundle.original.properties.headers["x-death"] = [died]
    taking = opened(parked)

    assert seen(taking.take(bundle, 0, NOW_MS + HOUR_MS, HOUR_MS)) == [("OpenBundle", 195)]
    assert parked.left_ms == [30_200]
