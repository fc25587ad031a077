"""Tests which copies of a bundle are due, and which are far from due."""

from bridge.broker.copies.bundles import Entry, index, pack
from bridge.broker.copies.open_bundle import EARLY_AT_MOST_MS, OpenBundle
from bridge.model.message import CopyKind

NOW_MS = 1_769_850_000_000


def bundle(*left_ms: int, stranded_ms: int = 0, waited_ms: int | None = None) -> OpenBundle:
    (packed,) = pack("orders", [Entry(NOW_MS + left, b"due in %d" % left) for left in left_ms])
    found = index(packed.properties, packed.body)
    return OpenBundle(7, "orders", CopyKind.CHECKED, stranded_ms, found, packed.body, waited_ms)


def test_copies_are_taken_as_they_fall_due() -> None:
    opened = bundle(0, 5, 5, 700)

    assert opened.due(NOW_MS) == [Entry(NOW_MS, b"due in 0")]
    assert (opened.left, opened.count, opened.left_ms(NOW_MS)) == (3, 2, 5)
    assert [entry.data for entry in opened.due(NOW_MS + 5)] == [b"due in 5", b"due in 5"]
    assert opened.due(NOW_MS + 5) == []
    assert [entry.data for entry in opened.due(NOW_MS + 999)] == [b"due in 700"]
    assert opened.left == 0


def test_copies_due_in_more_than_a_second_are_far() -> None:
    opened = bundle(0, 1_000, 1_001, 30_000)

    assert [(entry.data, left_ms) for entry, left_ms in opened.far(NOW_MS)] == [
        (b"due in 1001", 1_001),
        (b"due in 30000", 30_000),
    ]
    assert opened.left == 2
    assert opened.far(NOW_MS) == []


def test_the_rest_is_taken_with_what_is_left_of_each_delay() -> None:
    opened = bundle(0, 10, 20)
    opened.due(NOW_MS)

    assert [left_ms for _, left_ms in opened.rest(NOW_MS + 15)] == [0, 5]
    assert opened.left == 0


def test_bundle_that_comes_early_waits_for_a_few_seconds_at_most() -> None:
    """The clock of Redis was set back by an hour."""
    opened = bundle(3_600_000, 3_600_200)

    assert [left_ms for _, left_ms in opened.far(NOW_MS)] == [EARLY_AT_MOST_MS, EARLY_AT_MOST_MS + 200]
    assert opened.left == 0


def test_bundle_that_missed_a_slot_waits_for_the_rest_of_its_delay() -> None:
    opened = bundle(3_600_000, stranded_ms=60_000)

    assert [left_ms for _, left_ms in opened.far(NOW_MS)] == [EARLY_AT_MOST_MS + 60_000]


HOUR_MS = 3_600_000
SHORT_MS = 200


def test_clock_that_was_set_ahead_brings_no_copy_before_its_delay_has_passed() -> None:
    opened = bundle(0, 700, 30_000, waited_ms=30_000)
    opened.arrived(0, NOW_MS + HOUR_MS, SHORT_MS, in_queue_ms=0, step_ms=HOUR_MS)

    assert [left_ms for _, left_ms in opened.far(0)] == [30_000 + SHORT_MS]
    assert opened.parked_kind is CopyKind.CHECKED
    assert opened.due(SHORT_MS - 1) == []
    assert [entry.data for entry in opened.due(SHORT_MS)] == [b"due in 0"]
    assert opened.left_ms(SHORT_MS) == 700


def test_late_bundle_without_a_step_is_late() -> None:
    opened = bundle(0, 30_000, 7_000_000, waited_ms=30_000)
    opened.arrived(0, NOW_MS + HOUR_MS, SHORT_MS, in_queue_ms=0, step_ms=2_000)

    assert [left_ms for _, left_ms in opened.far(0)] == [7_000_000 - HOUR_MS]
    assert len(opened.due(0)) == 2
    assert opened.parked_kind is CopyKind.HOLD


def test_copy_that_is_taken_before_it_is_due_tells_no_wait() -> None:
    opened = bundle(0, 30_000, waited_ms=60_000)
    opened.arrived(0, NOW_MS, SHORT_MS, in_queue_ms=0, step_ms=0)

    opened.rest(0)
    assert (opened.waited_by_ms(NOW_MS), opened.waited_by_ms(NOW_MS + 30_000)) == (60_000, None)


def test_clock_that_was_set_back_does_not_hold_copies_of_a_bundle_that_has_stood() -> None:
    opened = bundle(0, 30_000, waited_ms=30_000)
    opened.arrived(0, NOW_MS - HOUR_MS, SHORT_MS, in_queue_ms=10_000, step_ms=0)

    assert [left_ms for _, left_ms in opened.far(0)] == [20_000 + SHORT_MS]
    assert len(opened.due(0)) == 1


def test_bundles_of_one_clock_are_parked_together() -> None:
    later, ahead, same = (bundle(0, 30_000, waited_ms=30_000) for _ in range(3))
    later.arrived(0, NOW_MS, SHORT_MS, in_queue_ms=0, step_ms=0)
    ahead.arrived(0, NOW_MS + HOUR_MS, SHORT_MS, in_queue_ms=0, step_ms=HOUR_MS - 5_000)
    same.arrived(250, NOW_MS + 250, SHORT_MS, in_queue_ms=0, step_ms=0)

    assert later.clock == same.clock != ahead.clock
