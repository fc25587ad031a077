"""Converts the counts of a topic's messages in Redis to the figures that operators see. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from bridge.metrics.states import TopicState
from bridge.model.message import SHOWN_STATES, State
from bridge.model.values import Policy, Release
from bridge.store.pages import Counts

_SHOWN: Final = (State.WAITING, State.READY, State.LEASED, State.DEAD)
_DUE: Final = ("overdue", "minute", "hour", "day", "later")
DUE_EDGES_MS: Final = (60_000, 3_600_000, 86_400_000)
"""The upper bounds of the values `minute`, `hour` and `day` of the metrics' label `due`, in ms from now."""


def as_shown(counted: Counts, policy: Policy) -> Counts:
    """Returns the counts as operators see them. A waiting message of a paused topic is not late, so `oldest_waiting_ms`
    is 0 while the topic is paused.

    With direct release, RabbitMQ makes messages ready and no bridge updates their records. So all waiting messages that
    are due count as ready, also while the topic is paused.
    """
    if policy.release is Release.DIRECT:
        overdue, *by_due = counted.by_due
        by_state = counted.by_state.copy()
        by_state[SHOWN_STATES.index(State.READY)] += overdue
        by_state[SHOWN_STATES.index(State.WAITING)] -= overdue
        return Counts(by_state, [0, *by_due], 0, max(counted.oldest_waiting_ms, counted.oldest_ready_ms))
    return replace(counted, oldest_waiting_ms=0) if policy.paused else counted


def topic_state(counted: Counts) -> TopicState:
    """Returns the state of a topic for metrics. `counted`: as `as_shown` returns it."""
    return TopicState(
        by_state={state.label: counted.by_state[SHOWN_STATES.index(state)] for state in _SHOWN},
        by_due=dict(zip(_DUE, counted.by_due, strict=True)),
        oldest_overdue_ms=counted.oldest_waiting_ms,
        oldest_ready_ms=counted.oldest_ready_ms,
    )
