"""Tests that values of `fast_dataclass` behave as those of a frozen dataclass."""

from __future__ import annotations

from dataclasses import dataclass, replace

from bridge.model.fast_dataclass import fast_dataclass


@fast_dataclass(frozen=True, kw_only=True, slots=True)
class Fast:
    topic: str
    epoch: int = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Frozen:
    topic: str
    epoch: int = 1


def test_fast_dataclass_compares_hashes_and_prints_as_a_frozen_one() -> None:
    one, other = Fast(topic="a"), Frozen(topic="a")

    assert one == Fast(topic="a", epoch=1) != replace(one, epoch=2)
    assert hash(one) == hash(other)
    assert repr(one).removeprefix("Fast") == repr(other).removeprefix("Frozen")
    assert not hasattr(one, "__dict__")


def test_type_checker_refuses_assignment_to_a_field() -> None:
    one = Fast(topic="a")
    # mypy reports an ignore comment without an error, so it must reject this assignment.
    one.topic = "b"  # type: ignore[misc]
