"""Copies that wait for their moment, and then for their topic's turn."""

import pytest

from bridge.loops.checkpoint.due_queue import DueQueue


def holding(*due: tuple[float, str]) -> DueQueue[str]:
    """What is held is named by its topic and its number there: a0, a1."""
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
def test_what_is_due_is_taken_earliest_first_and_in_order(
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
        # It becomes due while the others are being taken, and waits for no more than a turn of each.
        (of("a", 1, 1, 1, 1, 1, 1) + of("b", 11), ["a0 a1 a2", "b0 a3 a4", "a5"]),
        (of("a", 1, 1, 1, 1) + of("b", 1, 1) + of("c", 11), ["a0 b0 a1", "b1 c0 a2", "a3"]),
    ],
)
def test_topics_take_turns_in_what_is_due(due: list[tuple[float, str]], taken: list[str]) -> None:
    held = holding(*due)

    assert [held.take_due(10 + call, 3) for call in range(len(taken))] == [each.split() for each in taken]
    assert len(held) == 0


def test_a_topic_that_had_its_turn_and_comes_again_goes_behind_the_others() -> None:
    held = holding(*of("a", 1), *of("b", 1, 1))

    assert held.take_due(1, 1) == ["a0"]
    held.add(1, "a", "again")
    assert held.take_due(1, 9) == ["b0", "again", "b1"]


def test_what_can_be_taken_all_at_once_needs_no_turns() -> None:
    assert holding(*of("a", 1, 1), *of("b", 1), *of("a", 1)).take_due(1, 4) == ["a0", "a1", "b0", "a2"]


def test_the_next_moment_is_the_earliest_that_was_not_found_due() -> None:
    held = holding(*of("a", 5, 3), *of("b", 4))

    assert held.next_due_ms() == 3
    held.take_due(3, 9)
    assert held.next_due_ms() == 4
    held.take_due(9, 1)
    assert held.next_due_ms() is None
    assert len(held) == 1
    assert held.take_due(9, 9) == ["a0"]
    assert (len(held), held.take_due(100, 9)) == (0, [])


def test_a_bundle_is_as_many_turns_as_it_has_copies() -> None:
    held: DueQueue[str] = DueQueue()
    for number in range(3):
        held.add(1, "a", f"bundle{number}", 3)
    for number in range(7):
        held.add(1, "b", f"b{number}")

    assert held.take_due(1, 13) == ["bundle0", "b0", "b1", "b2", "bundle1", "b3", "b4", "b5", "bundle2"]
    assert held.take_due(1, 9) == ["b6"]


def test_a_bundle_may_go_beyond_what_is_taken_at_most() -> None:
    held: DueQueue[str] = DueQueue()
    for number in range(3):
        held.add(1, "a", f"bundle{number}", 200)

    assert held.take_due(1, 250) == ["bundle0", "bundle1"]
    assert held.take_due(1, 1) == ["bundle2"]


@pytest.mark.parametrize("copies", [1, 256])
def test_behind_any_flood_a_message_waits_for_one_turn_of_each_topic(copies: int) -> None:
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


def test_a_topic_that_was_idle_has_not_saved_up_turns() -> None:
    held = holding(*of("a", *[1] * 100))
    assert len(held.take_due(1, 90)) == 90
    for _ in range(100):
        held.add(1, "b", "b")

    assert held.take_due(1, 8) == ["b", "a90", "b", "a91", "b", "a92", "b", "a93"]


def test_a_topic_that_has_a_bundle_due_ever_again_gives_others_their_turns() -> None:
    held: DueQueue[str] = DueQueue()
    for number in range(5):
        held.add(1, "b", f"b{number}", 256)
    taken = held.take_due(1, 250)
    for moment in range(2, 10):
        held.add(moment, "a", "a", 256)
        taken += held.take_due(moment, 250)

    assert [one for one in taken if one != "a"] == [f"b{number}" for number in range(5)]
