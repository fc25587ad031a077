"""Shows the messages that wait, are ready, leased or dead, as Redis and RabbitMQ count them at each scrape.

These figures belong to no process. If a server does not answer, its figures are absent: old figures would look new.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from prometheus_client.metrics_core import GaugeMetricFamily, Metric

from bridge.metrics.registry import REGISTRY
from bridge.metrics.topics import LABELS, Labels

_MESSAGES: Final = "delaybridge_messages"
_WAITING: Final = "delaybridge_waiting_messages"
_OVERDUE: Final = "delaybridge_oldest_overdue_seconds"
_READY: Final = "delaybridge_oldest_ready_seconds"
_QUEUES: Final = "delaybridge_queue_messages"

NAMES: Final = frozenset({_MESSAGES, _WAITING, _OVERDUE, _READY, _QUEUES})
"""The names of this module's metrics, which have the same values in every process."""

_TEXTS: Final = {
    _MESSAGES: "Messages by state (waiting, ready, leased, dead)",
    _WAITING: "Waiting messages by due moment: overdue, or due within a minute, an hour, a day, or later",
    _OVERDUE: "How long the message that is overdue the longest has been due; 0 if there is none",
    _READY: "How long the oldest ready message has been due; 0 if there is none",
    _QUEUES: "Messages in a queue of the bridge: checkpoint, acks, refused, ingress, unroutable",
}
_LABELS: Final[Mapping[str, tuple[str, ...]]] = {
    _MESSAGES: ("topic", "state"),
    _WAITING: ("topic", "due"),
    _OVERDUE: ("topic",),
    _READY: ("topic",),
    _QUEUES: ("part", "queue"),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class TopicState:
    """Figures of one topic's messages. `by_state` and `by_due`: counts by the value of the label `state` or `due`.
    `oldest_overdue_ms`, `oldest_ready_ms`: for how many ms the oldest overdue or ready message has been due; 0: there
    is none."""

    by_state: Mapping[str, int]
    by_due: Mapping[str, int]
    oldest_overdue_ms: int
    oldest_ready_ms: int


@dataclass(frozen=True, slots=True)
class QueueDepth:
    """The number of messages in one queue. `part`: the name that the queue's RabbitMQ has as a part of health."""

    part: str
    queue: str
    messages: int


class States:
    """A collector for Prometheus: each scrape reads the figures that were last given to `show`."""

    def __init__(self, labels: Labels = LABELS) -> None:
        self._labels = labels
        self._values: dict[str, dict[tuple[str, ...], float]] = {}
        self.show((), ())

    def show(self, topics: Sequence[tuple[str, TopicState]], queues: Iterable[QueueDepth]) -> None:
        """Replaces all figures. `topics`: names and figures. A topic that two pools have comes twice.
        Counts with the same labels are added up; of ages with the same label the highest is shown."""
        counts: dict[str, dict[tuple[str, ...], float]] = {_MESSAGES: {}, _WAITING: {}}
        ages: dict[str, dict[tuple[str, ...], float]] = {_OVERDUE: {}, _READY: {}}
        label_of = self._labels.by_name({topic for topic, _ in topics})
        for topic, state in topics:
            label = label_of[topic]
            for name, numbers in ((_MESSAGES, state.by_state), (_WAITING, state.by_due)):
                sums = counts[name]
                for value, number in numbers.items():
                    sums[label, value] = sums.get((label, value), 0) + number
            for name, age_ms in ((_OVERDUE, state.oldest_overdue_ms), (_READY, state.oldest_ready_ms)):
                ages[name][label,] = max(ages[name].get((label,), 0), age_ms / 1_000)
        self._values = {**counts, **ages, _QUEUES: {(depth.part, depth.queue): depth.messages for depth in queues}}

    def collect(self) -> Iterable[Metric]:
        for name, values in self._values.items():
            family = GaugeMetricFamily(name, _TEXTS[name], labels=_LABELS[name])
            for labels, value in values.items():
                family.add_metric(labels, value)
            yield family


STATES: Final = States()
REGISTRY.register(STATES)
