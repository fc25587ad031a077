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


def test_a_value_is_equal_hashed_shown_and_replaced_as_a_frozen_dataclass_is() -> None:
    one, other = Fast(topic="a"), Frozen(topic="a")

    assert one == Fast(topic="a", epoch=1) != replace(one, epoch=2)
    assert hash(one) == hash(other)
    assert repr(one).removeprefix("Fast") == repr(other).removeprefix("Frozen")
    assert not hasattr(one, "__dict__")


def test_the_type_checker_refuses_to_change_a_value() -> None:
    one = Fast(topic="a")
    # Without an error to ignore here, mypy would refuse the comment.
    one.topic = "b"  # type: ignore[misc]
