"""Copies that wait for their moment."""

import pytest

from bridge.checkpoint.holding import Holding


def holding(*due: float) -> Holding[str]:
    held: Holding[str] = Holding()
    for number, due_ms in enumerate(due):
        held.add(due_ms, f"{number}@{due_ms}")
    return held


@pytest.mark.parametrize(
    ("due", "now_ms", "most", "taken"),
    [
        ((), 10, 9, []),
        ((5, 3, 4), 2.9, 9, []),
        ((5, 3, 4), 3, 9, ["1@3"]),
        ((5, 3, 4), 4.5, 9, ["1@3", "2@4"]),
        ((5, 3, 4), 100, 2, ["1@3", "2@4"]),
        ((7, 7, 7), 7, 9, ["0@7", "1@7", "2@7"]),
        ((7.5, 7.4), 7.4, 9, ["1@7.4"]),
    ],
)
def test_what_is_due_is_taken_earliest_first_and_in_order(
    due: tuple[float, ...], now_ms: float, most: int, taken: list[str]
) -> None:
    held = holding(*due)

    assert held.take_due(now_ms, most) == taken
    assert len(held) == len(due) - len(taken)


def test_the_next_moment_is_the_earliest_held() -> None:
    held = holding(5, 3, 4)

    assert held.next_due_ms() == 3
    held.take_due(3, 9)
    assert held.next_due_ms() == 4
    held.take_due(9, 9)
    assert held.next_due_ms() is None
    assert held.take_due(100, 9) == []
