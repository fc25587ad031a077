"""Tests that a process remembers no more names than it should."""

from __future__ import annotations

from bridge.model.recent import Recent


def test_a_further_key_replaces_the_one_noted_the_longest_ago() -> None:
    recent: Recent[str, int] = Recent(3)
    for value, key in enumerate("abca"):
        recent.note(key, value)
    recent.note("d", 4)

    assert [(key, recent.get(key)) for key in "abcd"] == [("a", 3), ("b", None), ("c", 2), ("d", 4)]
    assert len(recent) == 3


def test_a_forgotten_key_leaves_room() -> None:
    recent: Recent[str, int] = Recent(2)
    recent.note("a", 1)
    recent.note("b", 2)
    recent.forget("b")
    recent.forget("none")
    recent.note("c", 3)

    assert [recent.get(key) for key in "abc"] == [1, None, 3]
