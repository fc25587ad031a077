"""Tests that a confirm of a new queue counts only once the queue is old enough."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bridge.broker.declared import young_queues
from bridge.broker.declared.young_queues import YoungQueues


@pytest.fixture
def pass_s(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Returns a function that advances the clock by a number of seconds."""
    now_s = 0.0

    def on(seconds: float) -> None:
        nonlocal now_s
        now_s += seconds

    monkeypatch.setattr(young_queues, "monotonic", lambda: now_s)
    return on


@pytest.mark.parametrize(
    ("happens", "unsettled_at_once", "unsettled_later"),
    [
        ((), True, True),
        (("declaring",), True, True),
        (("declaring", "declared"), True, False),
        (("exists",), True, False),
        (("exists", "old"), False, False),
        (("declaring", "declared", "old"), True, False),
        (("old", "exists"), False, False),
        (("declaring", "declared", "forget", "exists"), True, False),
        (("old", "forget"), True, True),
    ],
)
def test_confirms_count_once_the_queues_are_old_enough(
    pass_s: Callable[[float], None], happens: tuple[str, ...], unsettled_at_once: bool, unsettled_later: bool
) -> None:
    queues = YoungQueues()
    for event in happens:
        getattr(queues, event)("orders")
    assert queues.unsettled("orders") is unsettled_at_once
    pass_s(1.6)
    assert queues.unsettled("orders") is unsettled_later


def test_only_settled_groups_are_forgotten(pass_s: Callable[[float], None]) -> None:
    queues = YoungQueues()
    for event, group in (("declared", "wheel"), ("declared", "declared"), ("exists", "found"), ("declaring", "begun")):
        getattr(queues, event)(group)
    pass_s(1.6)
    queues.declared("young")
    queues.forget_settled("wheel")

    assert list(queues._declared_s) == ["wheel", "young"]
    assert queues._found_s == {}
    assert queues.begun("begun")
    pass_s(1.6)
    assert not queues.unsettled("young")
