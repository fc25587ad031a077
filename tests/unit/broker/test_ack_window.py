"""Which delivery tags are acknowledged together."""

import pytest

from bridge.broker.client.ack_window import Acks, AckWindow


@pytest.mark.parametrize(
    ("batches", "told"),
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
def test_what_stands_before_all_others_is_acknowledged_with_one(batches: list[list[int]], told: list[Acks]) -> None:
    window = AckWindow()
    for tag in range(1, 6):
        window.delivered(tag)

    assert [window.done(tags) for tags in batches] == told
    assert window.held == 5 - sum(len(tags) for tags in batches)


def test_one_acknowledgement_for_many_never_covers_what_is_outstanding() -> None:
    window = AckWindow()
    for tag in (1, 2, 3):
        window.delivered(tag)
    assert window.done([2]) == Acks(0, (2,))
    window.delivered(4)

    assert window.done([4]) == Acks(0, (4,))
    assert window.done([1]) == Acks(1, ())
    assert window.held == 1


def test_what_is_done_is_told_once() -> None:
    window = AckWindow()
    for tag in (1, 2, 3):
        window.delivered(tag)
    window.done([1, 3])

    assert window.done([1, 3, 9]) == Acks(0, ())
    assert window.done([1, 2]) == Acks(2, ())


def test_a_delivery_that_nobody_noted_is_never_acknowledged_along() -> None:
    window = AckWindow()
    window.delivered(1)
    window.delivered(3)

    assert window.done([1, 3]) == Acks(1, (3,))
    window.delivered(4)
    assert window.done([4]) == Acks(0, (4,))
