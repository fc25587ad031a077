"""Bounds the label `topic`: a limited number of topics have a label of their own, and all others share `_other`.

A counter keeps its label until the process ends: a label that gave way to another would make the counters fall. Each
process labels the topics that it counts first. Gauges of messages are the same in every process, so these must agree:
the first topics by name have a label.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from heapq import nsmallest
from typing import Final, Generic, TypeVar

from prometheus_client import Counter, Histogram

from bridge.metrics.registry import counter

OTHER: Final = "_other"
"""The label of all topics without a label of their own. A topic of this name shares it, and never has its own."""

Family = TypeVar("Family", Counter, Histogram)


class Labels:
    """Decides which topics have a label of their own. `most`: how many."""

    def __init__(self, most: int = 200) -> None:
        self.most = most
        self._own: set[str] = set()

    def of(self, topic: str) -> str:
        """Returns the label of a topic that is counted."""
        if topic in self._own:
            return topic
        if topic == OTHER or len(self._own) >= self.most:
            return OTHER
        self._own.add(topic)
        return topic

    def by_name(self, topics: Iterable[str]) -> dict[str, str]:
        """Returns the labels of all topics for a gauge: the first by name have their own."""
        topics = list(topics)
        own = set(nsmallest(self.most, (topic for topic in topics if topic != OTHER)))
        return {topic: topic if topic in own else OTHER for topic in topics}

    def summed(self, counts: Mapping[str, int]) -> dict[str, int]:
        """Returns the counts of topics for a gauge, by label."""
        sums: dict[str, int] = {}
        for topic, label in self.by_name(counts).items():
            sums[label] = sums.get(label, 0) + counts[topic]
        return sums


LABELS: Final = Labels()
"""The labels of this process. `BRIDGE_METRICS_TOPICS` sets their number."""
_labelled: Final = LABELS._own  # under a name of the module, where `make soak` counts them


class Children(Generic[Family]):
    """The children of a metric by topic. It keeps them in a dict: the library's own look-up costs 3 µs a call."""

    def __init__(self, family: Family, *further: str, labels: Labels = LABELS) -> None:
        """`further`: the values of the labels behind `topic`."""
        self._family: Family = family
        self._further = further
        self._labels = labels
        self._children: dict[str, Family] = {}

    def of(self, topic: str) -> Family:
        """Returns the topic's child, or the one of `OTHER`."""
        child = self._children.get(topic)
        if child is None:
            label = self._labels.of(topic)
            child = self._children.get(label)
            if child is None:
                child = self._children[label] = self._family.labels(label, *self._further)
        return child


class ByTopic:
    """A counter by topic."""

    def __init__(self, name: str, text: str) -> None:
        self._children = Children(counter(name, text, "topic"))

    def add(self, topic: str, amount: int = 1) -> None:
        """Adds to the topic's counter."""
        self._children.of(topic).inc(amount)


class ByReason:
    """A counter by topic and by a reason out of a fixed list."""

    def __init__(self, name: str, text: str, reasons: Iterable[str]) -> None:
        family = counter(name, text, "topic", "reason")
        self._children = {reason: Children(family, reason) for reason in (*reasons, "other")}

    def add(self, topic: str, reason: str) -> None:
        """Adds one to the counter. A reason that is not on the list counts as "other"."""
        children = self._children.get(reason) or self._children["other"]
        children.of(topic).inc()
