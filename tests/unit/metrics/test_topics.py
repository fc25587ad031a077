"""Tests which topics have a label of their own."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter

from bridge.metrics.messages import DEAD
from bridge.metrics.registry import REGISTRY
from bridge.metrics.topics import OTHER, Children, Labels


def test_topics_beyond_the_limit_share_a_label() -> None:
    family = Counter("limited", "", ["topic"], registry=CollectorRegistry())
    children = Children(family, labels=Labels(2))
    for topic in ("first", "second", "third", "fourth", "first"):
        children.of(topic).inc()

    assert [children.of(topic)._value.get() for topic in ("first", "second", OTHER)] == [2, 1, 2]
    assert list(children._children) == ["first", "second", OTHER]


def test_topic_with_the_name_of_the_shared_label_never_has_its_own() -> None:
    labels = Labels(2)

    assert [labels.of(topic) for topic in (OTHER, "a", "b", "c")] == [OTHER, "a", "b", OTHER]
    assert labels.by_name([OTHER, "b", "a"]) == {OTHER: OTHER, "a": "a", "b": "b"}


def test_gauges_label_the_first_topics_by_name_in_every_process() -> None:
    early, late = Labels(2), Labels(2)
    late.of("z")

    for labels in (early, late):
        assert labels.by_name(["z", "b", "a"]) == {"a": "a", "b": "b", "z": OTHER}
        assert labels.summed({"z": 4, "b": 2, "a": 1, "y": 8}) == {"a": 1, "b": 2, OTHER: 12}


def test_reason_that_is_not_on_the_list_counts_as_other() -> None:
    for reason in ("rejected", "maxlen", "maxlen", "other"):
        DEAD.add("reasons", reason)

    def dead(reason: str) -> float | None:
        return REGISTRY.get_sample_value("delaybridge_dead_total", {"topic": "reasons", "reason": reason})

    assert [dead("rejected"), dead("other"), dead("maxlen")] == [1, 3, None]
