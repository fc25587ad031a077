"""A delivery is acknowledged after the last of its copies."""

from bridge.loops.checkpoint.bundle_refs import BundleRefs


def test_a_lone_copy_is_done_at_once() -> None:
    assert BundleRefs(most=9).done([7, 8]) == [7, 8]


def test_a_bundle_is_done_with_the_last_of_its_copies() -> None:
    shares = BundleRefs(most=9)
    shares.unpacked(3, 3)

    assert shares.done([3, 4, 3]) == [4]
    assert shares.done([5]) == [5]
    assert 3 in shares
    assert shares.done([3]) == [3]
    assert 3 not in shares


def test_what_is_parted_and_not_done_with_is_counted() -> None:
    shares = BundleRefs(most=9)
    shares.unpacked(1, 2)
    shares.unpacked(2, 3)
    assert shares.copies == 5

    shares.done([1, 7, 2, 2])
    assert shares.copies == 2
    shares.done([1, 1, 2])
    assert shares.copies == 0


def test_no_more_is_parted_while_too_much_is_not_done_with() -> None:
    shares = BundleRefs(most=9)
    assert shares.has_room(256)

    shares.unpacked(1, 5)
    assert [shares.has_room(copies) for copies in (4, 5)] == [True, False]
    shares.done([1] * 5)
    assert shares.has_room(256)


def test_bundles_are_counted_apart() -> None:
    shares = BundleRefs(most=9)
    shares.unpacked(1, 2)
    shares.unpacked(2, 1)

    assert shares.done([1, 2]) == [2]
    assert shares.done([1]) == [1]
