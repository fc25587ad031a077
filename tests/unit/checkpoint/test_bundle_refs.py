"""Tests that the delivery of a bundle is acknowledged after the last of its copies."""

from bridge.loops.checkpoint.bundle_refs import BundleRefs


def test_single_copy_is_acknowledged_at_once() -> None:
    assert BundleRefs(most=9).done([7, 8]) == [7, 8]


def test_bundle_is_acknowledged_after_its_last_copy() -> None:
    refs = BundleRefs(most=9)
    refs.opened(3, 3)
    refs.read(3)

    assert refs.done([3, 4, 3]) == [4]
    assert refs.done([5]) == [5]
    assert 3 in refs
    assert refs.done([3]) == [3]
    assert 3 not in refs


def test_unfinished_copies_are_counted() -> None:
    refs = BundleRefs(most=9)
    refs.opened(1, 2)
    refs.read(2)
    refs.opened(2, 3)
    refs.read(3)
    assert refs.copies == 5

    refs.done([1, 7, 2, 2])
    assert refs.copies == 2
    refs.done([1, 1, 2])
    assert refs.copies == 0


def test_bundle_has_no_room_while_too_many_copies_are_unfinished() -> None:
    refs = BundleRefs(most=9)
    assert refs.has_room(256)

    refs.opened(1, 5)
    refs.read(5)
    assert [refs.has_room(copies) for copies in (4, 5)] == [True, False]
    refs.done([1] * 5)
    assert refs.has_room(256)


def test_parked_copies_count_for_their_bundle_and_not_as_read_ones() -> None:
    refs = BundleRefs(most=9)
    refs.opened(1, 3)
    refs.opened(2, 2)
    refs.read(1)

    assert refs.parked([1, 1, 2, 2]) == [2]
    assert refs.copies == 1
    assert refs.done([1]) == [1]
    assert refs.copies == 0


def test_copies_of_each_bundle_are_counted_separately() -> None:
    refs = BundleRefs(most=9)
    refs.opened(1, 2)
    refs.read(2)
    refs.opened(2, 1)
    refs.read(1)

    assert refs.done([1, 2]) == [2]
    assert refs.done([1]) == [1]
