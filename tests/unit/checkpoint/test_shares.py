"""A delivery is acknowledged after the last of its copies."""

from bridge.checkpoint.shares import Shares


def test_a_lone_copy_is_done_at_once() -> None:
    assert Shares().done([7, 8]) == [7, 8]


def test_a_parcel_is_done_with_the_last_of_its_copies() -> None:
    shares = Shares()
    shares.parted(3, 3)

    assert shares.done([3, 4, 3]) == [4]
    assert shares.done([5]) == [5]
    assert 3 in shares
    assert shares.done([3]) == [3]
    assert 3 not in shares


def test_parcels_are_counted_apart() -> None:
    shares = Shares()
    shares.parted(1, 2)
    shares.parted(2, 1)

    assert shares.done([1, 2]) == [2]
    assert shares.done([1]) == [1]
