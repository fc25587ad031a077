"""Tests that copies wait until they are due, and then for their topic's turn."""

import pytest

from bridge.loops.checkpoint.due_queue import DueQueue


def holding(*due: tuple[float, str]) -> DueQueue[str]:
    """Returns a queue with these items. An item's name is its topic and a number: a0, a1."""
    held: DueQueue[str] = DueQueue()
    counts: dict[str, int] = {}
    for due_ms, topic in due:
        number = counts[topic] = counts.get(topic, -1) + 1
        held.add(due_ms, topic, f"{topic}{number}")
    return held


def of(topic: str, *due: float) -> list[tuple[float, str]]:
    return [(due_ms, topic) for due_ms in due]


@pytest.mark.parametrize(
    ("due", "now_ms", "most", "taken"),
    [
        (of("a"), 10, 9, ""),
        (of("a", 5, 3, 4), 2.9, 9, ""),
        (of("a", 5, 3, 4), 3, 9, "a1"),
        (of("a", 5, 3, 4), 4.5, 9, "a1 a2"),
        (of("a", 5, 3, 4), 100, 2, "a1 a2"),
        (of("a", 7, 7, 7), 7, 9, "a0 a1 a2"),
        (of("a", 7.5, 7.4), 7.4, 9, "a1"),
    ],
)
def test_due_items_are_taken_earliest_first_and_in_order(
    due: list[tuple[float, str]], now_ms: float, most: int, taken: str
) -> None:
    held = holding(*due)

    assert held.take_due(now_ms, most) == taken.split()
    assert len(held) == len(due) - len(taken.split())


@pytest.mark.parametrize(
    ("due", "taken"),
    [
        (of("a", 1, 1, 1, 1) + of("b", 2), ["a0 b0 a1", "a2 a3"]),
        (of("a", 1, 1, 1) + of("b", 1, 1, 1), ["a0 b0 a1", "b1 a2 b2"]),
        (of("a", 1, 1, 1, 1, 1, 1) + of("b", 3) + of("c", 2, 2), ["a0 c0 b0", "a1 c1 a2", "a3 a4 a5"]),
        # It becomes due while the others are taken, and waits for one turn of each at most.
        (of("a", 1, 1, 1, 1, 1, 1) + of("b", 11), ["a0 a1 a2", "b0 a3 a4", "a5"]),
        (of("a", 1, 1, 1, 1) + of("b", 1, 1) + of("c", 11), ["a0 b0 a1", "b1 c0 a2", "a3"]),
    ],
)
def test_due_topics_take_turns(due: list[tuple[float, str]], taken: list[str]) -> None:
    held = holding(*due)

    assert [held.take_due(10 + call, 3) for call in range(len(taken))] == [each.split() for each in taken]
    assert len(held) == 0


def test_returning_topic_waits_behind_the_others() -> None:
    held = holding(*of("a", 1), *of("b", 1, 1))

    assert held.take_due(1, 1) == ["a0"]
    held.add(1, "a", "again")
    assert held.take_due(1, 9) == ["b0", "again", "b1"]


def test_items_that_fit_at_once_keep_their_order() -> None:
    assert holding(*of("a", 1, 1), *of("b", 1), *of("a", 1)).take_due(1, 4) == ["a0", "a1", "b0", "a2"]


def test_next_moment_is_the_earliest_not_found_due() -> None:
    held = holding(*of("a", 5, 3), *of("b", 4))

    assert held.next_due_ms() == 3
    held.take_due(3, 9)
    assert held.next_due_ms() == 4
    held.take_due(9, 1)
    assert held.next_due_ms() is None
    assert len(held) == 1
    assert held.take_due(9, 9) == ["a0"]
    assert (len(held), held.take_due(100, 9)) == (0, [])


def test_bundle_counts_as_many_turns_as_it_has_copies() -> None:
    held: DueQueue[str] = DueQueue()
    for number in range(3):
        held.add(1, "a", f"bundle{number}", 3)
    for number in range(7):
        held.add(1, "b", f"b{number}")

    assert held.take_due(1, 13) == ["bundle0", "b0", "b1", "b2", "bundle1", "b3", "b4", "b5", "bundle2"]
    assert held.take_due(1, 9) == ["b6"]


def test_last_bundle_may_exceed_the_limit() -> None:
    held: DueQueue[str] = DueQueue()
    for number in range(3):
        held.add(1, "a", f"bundle{number}", 200)

    assert held.take_due(1, 250) == ["bundle0", "bundle1"]
    assert held.take_due(1, 1) == ["bundle2"]


@pytest.mark.parametrize("copies", [1, 256])
def test_message_behind_a_flood_waits_one_turn_of_each_topic(copies: int) -> None:
    held: DueQueue[str] = DueQueue()
    for number in range(1_000):
        held.add(1, f"flood{number % 3}", "flood", copies)
    before = [held.take_due(1, 250) for _ in range(3)]
    assert {one for batch in before for one in batch} == {"flood"}
    held.add(2, "other", "behind")

    after: list[str] = []
    while "behind" not in after:
        after += held.take_due(2, 250)
    assert after.index("behind") <= 3


def test_idle_topic_saves_no_turns() -> None:
    held = holding(*of("a", *[1] * 100))
    assert len(held.take_due(1, 90)) == 90
    for _ in range(100):
        held.add(1, "b", "b")

    assert held.take_due(1, 8) == ["b", "a90", "b", "a91", "b", "a92", "b", "a93"]


def test_topic_with_endless_bundles_lets_others_take_turns() -> None:
    held: DueQueue[str] = DueQueue()
    for number in range(5):
        held.add(1, "b", f"b{number}", 256)
    taken = held.take_due(1, 250)
    for moment in range(2, 10):
        held.add(moment, "a", "a", 256)
        taken += held.take_due(moment, 250)

    assert [one for one in taken if one != "a"] == [f"b{number}" for number in range(5)]
