"""Tests that finished delivery tags are acknowledged with as few acks as possible, and no other tag with them."""

import pytest

from bridge.broker.client.ack_window import Acks, AckWindow


@pytest.mark.parametrize(
    ("batches", "expected"),
    [
        ([[1, 2, 3, 4, 5]], [Acks(5, ())]),
        ([[1]], [Acks(1, ())]),
        ([[]], [Acks(0, ())]),
        ([[5, 3, 1, 2, 4]], [Acks(5, ())]),
        ([[2, 3]], [Acks(0, (2, 3))]),
        ([[1, 3, 5]], [Acks(1, (3, 5))]),
        ([[2], [1, 3], [4, 5]], [Acks(0, (2,)), Acks(3, ()), Acks(5, ())]),
        ([[5], [4], [1, 2, 3]], [Acks(0, (5,)), Acks(0, (4,)), Acks(3, ())]),
    ],
)
def test_finished_tags_in_front_are_acknowledged_with_one_multiple_ack(
    batches: list[list[int]], expected: list[Acks]
) -> None:
    window = AckWindow()
    for tag in range(1, 6):
        window.delivered(tag)

    assert [window.done(tags) for tags in batches] == expected
    assert window.held == 5 - sum(len(tags) for tags in batches)


def test_multiple_ack_never_covers_an_outstanding_tag() -> None:
    window = AckWindow()
    for tag in (1, 2, 3):
        window.delivered(tag)
    assert window.done([2]) == Acks(0, (2,))
    window.delivered(4)

    assert window.done([4]) == Acks(0, (4,))
    assert window.done([1]) == Acks(1, ())
    assert window.held == 1


def test_each_tag_is_acknowledged_once() -> None:
    window = AckWindow()
    for tag in (1, 2, 3):
        window.delivered(tag)
    window.done([1, 3])

    assert window.done([1, 3, 9]) == Acks(0, ())
    assert window.done([1, 2]) == Acks(2, ())


def test_multiple_ack_never_covers_an_unnoted_tag() -> None:
    window = AckWindow()
    window.delivered(1)
    window.delivered(3)

    assert window.done([1, 3]) == Acks(1, (3,))
    window.delivered(4)
    assert window.done([4]) == Acks(0, (4,))
