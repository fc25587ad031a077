"""Bounds the label `topic`: a limited number of topics have a label of their own, and all others share `_other`.

A topic keeps its label until the process ends: if another topic took the label's place, counters would fall. Each
process gives labels to the topics that it counts first. Gauges of messages must be the same in every process, so in
gauges the first topics by name have a label.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from heapq import nsmallest
from typing import Final, Generic, TypeVar

from prometheus_client import Counter, Histogram

from bridge.metrics.registry import counter

OTHER: Final = "_other"
"""The label of all topics without a label of their own. A topic of this name shares this label, and never has a label
of its own."""

Family = TypeVar("Family", Counter, Histogram)


class Labels:
    """Decides which topics have a label of their own. `most`: how many topics may have one."""

    def __init__(self, most: int = 200) -> None:
        self.most = most
        self._own: set[str] = set()

    def of(self, topic: str) -> str:
        """Returns the label for a topic's counters: the topic's name, or `OTHER` if `most` other topics have a
        label."""
        if topic in self._own:
            return topic
        if topic == OTHER or len(self._own) >= self.most:
            return OTHER
        self._own.add(topic)
        return topic

    def by_name(self, topics: Iterable[str]) -> dict[str, str]:
        """Returns the label for each topic's gauges: the topic's name for the first `most` topics by name, else
        `OTHER`."""
        topics = list(topics)
        own = set(nsmallest(self.most, (topic for topic in topics if topic != OTHER)))
        return {topic: topic if topic in own else OTHER for topic in topics}

    def summed(self, counts: Mapping[str, int]) -> dict[str, int]:
        """Returns the sum of the topics' counts for each label that gauges show. `counts`: a number for each topic."""
        sums: dict[str, int] = {}
        for topic, label in self.by_name(counts).items():
            sums[label] = sums.get(label, 0) + counts[topic]
        return sums


LABELS: Final = Labels()
"""The labels of this process's metrics. The setting `BRIDGE_METRICS_TOPICS` limits their number."""
_labelled: Final = LABELS._own  # under a name of the module, where `make soak` counts them


class Children(Generic[Family]):
    """The children of a metric: its counter or histogram for each label of a topic. A dict keeps them, because the
    look-up of the metrics library costs 3 µs a call."""

    def __init__(self, family: Family, *further: str, labels: Labels = LABELS) -> None:
        """`further`: the values of the labels that come after `topic`."""
        self._family: Family = family
        self._further = further
        self._labels = labels
        self._children: dict[str, Family] = {}

    def of(self, topic: str) -> Family:
        """Returns the child for the topic's label, which may be `OTHER`."""
        child = self._children.get(topic)
        if child is None:
            label = self._labels.of(topic)
            child = self._children.get(label)
            if child is None:
                child = self._children[label] = self._family.labels(label, *self._further)
        return child


class ByTopic:
    """A counter with the label `topic`."""

    def __init__(self, name: str, text: str) -> None:
        self._children = Children(counter(name, text, "topic"))

    def add(self, topic: str, amount: int = 1) -> None:
        """Adds `amount` to the topic's counter."""
        self._children.of(topic).inc(amount)


class ByReason:
    """A counter with the labels `topic` and `reason`. `reasons`: all reasons that have a label of their own."""

    def __init__(self, name: str, text: str, reasons: Iterable[str]) -> None:
        family = counter(name, text, "topic", "reason")
        self._children = {reason: Children(family, reason) for reason in (*reasons, "other")}

    def add(self, topic: str, reason: str) -> None:
        """Adds one to the counter of the topic and reason. A reason outside of `reasons` counts as "other"."""
        children = self._children.get(reason) or self._children["other"]
        children.of(topic).inc()
