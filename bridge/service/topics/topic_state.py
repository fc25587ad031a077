"""Converts the counts of a topic's messages in Redis to metrics. Pure."""

from __future__ import annotations

from typing import Final

from bridge.metrics.states import TopicState
from bridge.model.message import SHOWN_STATES, State
from bridge.model.values import Policy, Release
from bridge.store.pages import Counts

_SHOWN: Final = (State.WAITING, State.READY, State.LEASED, State.DEAD)
_DUE: Final = ("overdue", "minute", "hour", "day", "later")
DUE_EDGES_MS: Final = (60_000, 3_600_000, 86_400_000)
"""The edges for `pages.counts`, which separate the values of the metrics' label `due`."""


def topic_state(counted: Counts, policy: Policy) -> TopicState:
    """Returns the state of a topic. While the topic is paused, no message counts as late, so `oldest_overdue_ms` is 0.

    With direct release, RabbitMQ makes messages ready and no bridge updates their records. So all waiting messages that
    are due count as ready.
    """
    by_state = {state.label: counted.by_state[SHOWN_STATES.index(state)] for state in _SHOWN}
    by_due = dict(zip(_DUE, counted.by_due, strict=True))
    oldest_overdue_ms, oldest_ready_ms = counted.oldest_waiting_ms, counted.oldest_ready_ms
    if policy.release is Release.DIRECT:
        by_state["ready"] += by_due["overdue"]
        by_state["waiting"] -= by_due["overdue"]
        by_due["overdue"] = 0
        oldest_overdue_ms, oldest_ready_ms = 0, max(oldest_overdue_ms, oldest_ready_ms)
    return TopicState(
        by_state=by_state,
        by_due=by_due,
        oldest_overdue_ms=0 if policy.paused else oldest_overdue_ms,
        oldest_ready_ms=oldest_ready_ms,
    )
