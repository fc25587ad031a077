"""Tests that copies are published as single messages or as bundles."""

from dataclasses import replace
from typing import Any

import pytest

from bridge.broker.copies.bundles import COUNT_HEADER, MOST_COPIES, Entry
from bridge.broker.copies.properties import Properties
from bridge.broker.copy_publisher import _sent_long_before
from bridge.broker.publications import Publication, Route, dead_letter_may_follow, messages, parked_again
from bridge.model.message import Copy, CopyKind, Envelope, Target
from topology.names import Names

NAMES = Names()
NOW_MS = 1_769_850_000_000


def copy(at: int, topic: str = "orders") -> Copy:
    return Copy(
        topic=topic,
        id=f"o-{at}",
        epoch=1,
        nonce=at + 1,
        attempt=1,
        max_retry=3,
        due_ms=NOW_MS,
        expires_ms=0,
        created_ms=NOW_MS,
        envelope=Envelope(body=b"1"),
    )


def to_wheel(at: int, left_ms: float, topic: str = "orders", **further: Any) -> Publication:
    terms = {"shares": True, "kind": CopyKind.CHECKED, **further}
    return Publication(copy=copy(at, topic), route=Route.WHEEL, left_ms=left_ms, **terms)


def sent(*publications: Publication) -> list[tuple[tuple[int, ...], str, int | None]]:
    """Returns for each message the indexes of its copies, its key, and its count if it is a bundle."""
    return [
        (places, outgoing.routing_key, _count(outgoing.properties))
        for places, outgoing in messages(NAMES, publications, bundled=True)
    ]


def _count(properties: object) -> Any:
    return (properties.headers or {})[COUNT_HEADER] if isinstance(properties, Properties) else None


@pytest.mark.parametrize(
    ("kind", "attempt", "follows"),
    [
        # With three retries the fourth delivery is the last, and a lease copy has the number of the next one.
        (CopyKind.RETRY, 3, False),
        (CopyKind.RETRY, 4, True),
        (CopyKind.LEASE, 4, False),
        (CopyKind.LEASE, 5, True),
        (CopyKind.CHECKED, 5, False),
        (CopyKind.HOLD, 5, False),
    ],
)
def test_letter_may_follow_the_last_retry_and_the_last_lease(kind: CopyKind, attempt: int, follows: bool) -> None:
    last = Publication(copy=replace(copy(0), attempt=attempt), route=Route.WHEEL, kind=kind)
    assert dead_letter_may_follow(last) is follows
    elsewhere = replace(last.copy, envelope=Envelope(target=Target("invoices", "key")))
    assert not dead_letter_may_follow(replace(last, copy=elsewhere))  # all topics share its dead queue


def test_copies_of_one_window_share_a_bundle_that_leaves_for_the_earliest() -> None:
    found = sent(to_wheel(0, 7_999), to_wheel(1, 5_399), to_wheel(2, 8_000), to_wheel(3, 5_299.5), to_wheel(4, 9_000))

    assert found == [
        ((3, 1, 0), "0.0.0.0.0.5.1.!checked-bundle.orders", 3),
        ((2, 4), "0.0.0.0.0.7.9.!checked-bundle.orders", 2),
    ]


def test_copy_that_is_alone_in_its_window_travels_alone() -> None:
    assert sent(to_wheel(0, 5_250), to_wheel(1, 3_250)) == [((0,), *_alone("5.1")), ((1,), *_alone("3.1"))]


def test_copy_that_fits_no_bundle_travels_alone() -> None:
    odd = replace(to_wheel(1, 5_000), copy=replace(copy(1), envelope=Envelope(body=b"", headers={"deep": {"a": 1}})))

    assert [(places, count) for places, _, count in sent(to_wheel(0, 5_000), odd, to_wheel(2, 5_000))] == [
        ((0, 2), 2),
        ((1,), None),
    ]


def test_entries_are_parked_again_by_windows_and_never_alone_as_messages() -> None:
    entries = [(Entry(NOW_MS + left_ms, b"an entry"), float(left_ms)) for left_ms in (1_500, 60_000, 1_200)]
    found = [
        (places, outgoing.routing_key, _count(outgoing.properties))
        for places, outgoing in parked_again(NAMES, "orders", CopyKind.CHECKED, entries)
    ]

    assert found == [
        ((2, 0), "0.0.0.0.0.1.1.!checked-bundle.orders", 2),
        ((1,), "0.0.0.0.0.59.9.!checked-bundle.orders", 1),
    ]


def test_single_copy_travels_alone() -> None:
    assert sent(to_wheel(0, 5_250)) == [((0,), *_alone("5.1"))]


def test_key_of_a_plain_copy_has_no_kind() -> None:
    assert sent(to_wheel(0, 5_250, exact=False, kind=CopyKind.PLAIN)) == [((0,), "0.0.0.0.0.5.3.orders", None)]


def test_a_bundle_of_leases_has_their_kind() -> None:
    found = sent(*(to_wheel(at, 30_000, exact=False, kind=CopyKind.LEASE) for at in range(3)))

    assert found == [((0, 1, 2), "0.0.0.0.0.30.0.!lease-bundle.orders", 3)]


def test_copy_that_may_not_share_travels_alone() -> None:
    ready = [Publication(copy=copy(at), route=Route.READY, shares=True) for at in (2, 3)]
    found = sent(*(to_wheel(at, 5_000, shares=False) for at in (0, 1)), *ready)

    assert found == [
        ((0,), *_alone("4.9")),
        ((1,), *_alone("4.9")),
        ((2,), "orders", None),
        ((3,), "orders", None),
    ]


def test_topics_and_kinds_are_kept_apart() -> None:
    found = sent(to_wheel(0, 5_000), to_wheel(1, 5_000, "mails"), to_wheel(2, 5_000, kind=CopyKind.LEASE))

    assert [count for _, _, count in found] == [None] * 3


def test_copy_left_over_by_a_full_bundle_travels_alone() -> None:
    found = sent(*(to_wheel(at, 5_000) for at in range(MOST_COPIES + 1)))

    assert [count for _, _, count in found] == [MOST_COPIES, None]
    assert sorted(at for places, _, _ in found for at in places) == list(range(MOST_COPIES + 1))


def _alone(digits: str) -> tuple[str, None]:
    return f"0.0.0.0.0.{digits}.!checked.orders", None


@pytest.mark.parametrize(
    ("epoch", "delay_ms", "long"),
    [(1, 0, False), (1, 2_999, False), (1, 3_000, True), (2, 86_400_000, True), (0, 86_400_000, False)],
)
def test_copy_sent_seconds_before_due_shows_that_its_queues_are_old(epoch: int, delay_ms: int, long: bool) -> None:
    assert _sent_long_before(replace(copy(0), epoch=epoch, due_ms=NOW_MS + delay_ms)) is long


def test_copy_with_a_target_is_published_to_it_or_to_the_queue_of_its_letters() -> None:
    targeted = replace(copy(0), envelope=Envelope(body=b"1", target=Target("shop", "eu.new")))
    ways = [
        *(Publication(copy=targeted, route=Route.TARGET), Publication(copy=targeted, route=Route.DEAD, reason="no")),
        Publication(copy=copy(1), route=Route.DEAD, reason="no"),
    ]

    found = [(outgoing.exchange, outgoing.routing_key) for _, outgoing in messages(NAMES, ways, bundled=True)]

    assert found == [("shop", "eu.new"), ("", "delay.unroutable"), ("", "dead.orders")]
