"""Tests the figures of topics: their sums by label, and how they follow from the counts of Redis."""

from __future__ import annotations

from bridge.metrics.states import States, TopicState
from bridge.metrics.topics import OTHER, Labels
from bridge.model.values import Policy, Release
from bridge.service.topics.topic_state import as_shown, topic_state
from bridge.store.pages import Counts

COUNTED = Counts(
    by_state=[15, 20, 3, 9, 9, 4, 9],
    by_due=[1, 2, 3, 4, 5],
    oldest_waiting_ms=1_500,
    oldest_ready_ms=700,
)


def shown(states: States) -> dict[tuple[str, ...], float]:
    """The values of all figures, by name and the values of the labels."""
    return {
        (family.name.removeprefix("delaybridge_"), *sample.labels.values()): sample.value
        for family in states.collect()
        for sample in family.samples
    }


def of(waiting: int, oldest_ms: int) -> TopicState:
    return TopicState(
        by_state={"waiting": waiting}, by_due={"minute": waiting}, oldest_overdue_ms=oldest_ms, oldest_ready_ms=0
    )


def test_topics_beyond_the_limit_are_summed_and_show_the_oldest() -> None:
    states = States(Labels(1))
    states.show([("a", of(1, 0)), ("b", of(2, 3_000)), ("c", of(4, 1_000)), ("b", of(8, 0))], ())

    found = shown(states)
    assert found["messages", "a", "waiting"] == found["waiting_messages", "a", "minute"] == 1
    assert found["messages", OTHER, "waiting"] == 14
    assert (found["oldest_overdue_seconds", "a"], found["oldest_overdue_seconds", OTHER]) == (0, 3)


def test_figures_of_topics_that_are_gone_are_absent() -> None:
    states = States(Labels(2))
    states.show([("gone", of(7, 0)), ("left", of(7, 0))], ())
    states.show([("left", of(8, 0))], ())

    assert {labels[1] for labels in shown(states)} == {"left"}


def test_counts_of_a_topic_become_its_figures() -> None:
    assert topic_state(as_shown(COUNTED, Policy())) == TopicState(
        by_state={"waiting": 15, "ready": 20, "leased": 3, "dead": 4},
        by_due={"overdue": 1, "minute": 2, "hour": 3, "day": 4, "later": 5},
        oldest_overdue_ms=1_500,
        oldest_ready_ms=700,
    )


def test_nothing_is_overdue_while_a_topic_is_paused() -> None:
    assert topic_state(as_shown(COUNTED, Policy(paused=True))).oldest_overdue_ms == 0


def test_due_messages_of_a_direct_topic_are_ready() -> None:
    state = topic_state(as_shown(COUNTED, Policy(release=Release.DIRECT)))

    assert (state.by_state["waiting"], state.by_state["ready"], state.by_due["overdue"]) == (14, 21, 0)
    assert (state.oldest_overdue_ms, state.oldest_ready_ms) == (0, 1_500)
