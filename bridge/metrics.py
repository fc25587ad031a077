"""Counts for Prometheus. Counters belong to this process; gauges of messages are read from Redis at each scrape.

If several worker processes answer on one port, each shows the counters of all of them, with the label `process`. A sum
would shrink when one of them restarts, which Prometheus would take for a reset of all.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any, Final, Generic, TypeVar

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.metrics_core import Metric

from bridge.model.recent import Recent

REGISTRY: Final = CollectorRegistry()
_TOPIC: Final = ["topic"]


OTHER: Final = "(other)"
"""The label of all topics without a label of their own. No topic has this name."""
MOST_LABELS: Final = 2_000
"""The topics with a label of their own: the first ones that this process counted."""
_labelled: Final[set[str]] = set()


def label(topic: str) -> str:
    """Returns the topic's label. Each label costs about 40 series, here and in Prometheus."""
    if topic not in _labelled:
        if len(_labelled) >= MOST_LABELS:
            return OTHER
        _labelled.add(topic)
    return topic


def by_label(counts: Mapping[str, int]) -> dict[str, int]:
    """Returns the counts of topics by label."""
    sums: dict[str, int] = {}
    for topic, count in counts.items():
        name = label(topic)
        sums[name] = sums.get(name, 0) + count
    return sums


Family = TypeVar("Family", Counter, Histogram)


class Children(Generic[Family]):
    """The children of a metric by topic. It keeps them in a dict: the library's own look-up costs 3 µs a call."""

    def __init__(self, family: Family) -> None:
        self._family: Family = family
        self._children: dict[str, Family] = {}

    def of(self, topic: str) -> Family:
        """Returns the topic's child, or the one of `OTHER`."""
        child = self._children.get(topic)
        if child is None:
            name = label(topic)
            child = self._children.get(name)
            if child is None:
                child = self._children[name] = self._family.labels(name)
        return child


class ByTopic:
    """A counter by topic."""

    def __init__(self, name: str, text: str) -> None:
        self._children = Children(Counter(f"delaybridge_{name}", text, _TOPIC, registry=REGISTRY))

    def add(self, topic: str, amount: int = 1) -> None:
        """Adds to the topic's counter."""
        self._children.of(topic).inc(amount)


ACCEPTED: Final = ByTopic("accepted", "Messages accepted by sends")
RELEASED: Final = ByTopic("released", "Copies released into a ready queue by the checkpoint")
DELIVERED: Final = ByTopic("delivered", "Deliveries over HTTP")
ACKED: Final = ByTopic("acked", "Messages recorded as acknowledged")
DELETED: Final = ByTopic("deleted", "Messages deleted")
EXPIRED: Final = ByTopic("expired", "Messages that expired")
DEAD: Final = ByTopic("dead", "Messages that became dead letters")
RETRIED: Final = ByTopic("retried", "Copies sent again after a failed delivery over AMQP")
GHOSTS: Final = ByTopic("ghosts_dropped", "Ghosts dropped: copies that a newer copy has replaced")
RESENT: Final = ByTopic("resent", "Messages sent again because their copy was lost")
PUSHED: Final = ByTopic("pushed", "Callbacks that the receiver accepted")
PUSH_HELD: Final = ByTopic("push_held", "Callbacks whose receiver asked for a pause")
PUSH_FAILED: Final = Counter("delaybridge_push_failed", "Callbacks that failed", ["topic", "reason"], registry=REGISTRY)
PUSH_SECONDS: Final = Children(
    Histogram(
        "delaybridge_push_seconds",
        "Time from the start of a callback to the end of its answer",
        _TOPIC,
        registry=REGISTRY,
        buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300),
    )
)
REFUSED: Final = Counter(
    "delaybridge_refused", "Copies set aside because the bridge could not read them", registry=REGISTRY
)
PARKED_AGAIN: Final = Counter(
    "delaybridge_parked_again",
    "Copies that came in a bundle, were far from due, and went back into the wheel in another",
    registry=REGISTRY,
)
HTTP_REFUSED: Final = Counter(
    "delaybridge_http_refused",
    "Requests refused and clients disconnected because they broke a limit of the HTTP server",
    ["status"],
    registry=REGISTRY,
)
ACCESS_REFUSED: Final = Counter(
    "delaybridge_access_refused",
    "Requests refused because they have no token or theirs does not allow them",
    ["kind"],
    registry=REGISTRY,
)
RELEASE_LAG: Final = Children(
    Histogram(
        "delaybridge_release_lag_seconds",
        "Time from the due moment to the confirmed release into the ready queue",
        _TOPIC,
        registry=REGISTRY,
        buckets=(0.001, 0.002, 0.003, 0.005, 0.0075, 0.01, 0.015, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60, 600),
    )
)
MESSAGES: Final = Gauge(
    "delaybridge_messages", "Messages by state (waiting, ready, leased)", ["topic", "state"], registry=REGISTRY
)
BREAKER: Final = Gauge(
    "delaybridge_breaker", "0 closed, 1 half-open, 2 open: calls to the part fail at once", ["part"], registry=REGISTRY
)
OVERDUE: Final = Gauge(
    "delaybridge_overdue", "Messages without a live copy, as the last audit found them", _TOPIC, registry=REGISTRY
)
FINDINGS: Final = Gauge(
    "delaybridge_findings", "Findings of the last check of the servers, by severity", ["severity"], registry=REGISTRY
)
UP: Final = Gauge(
    "delaybridge_up",
    "1 if the part works (broker, store, checkpoint and other loops), asked at each scrape",
    ["part"],
    registry=REGISTRY,
)


def counted(messages: Mapping[tuple[str, str], int]) -> None:
    """Sets the gauges of messages, by topic and state. Removes those of all other topics."""
    MESSAGES.clear()
    for (topic, state), count in messages.items():
        MESSAGES.labels(label(topic), state).inc(count)


_LATEST: Final = 2_048
_MOST_WINDOWS: Final = 1_000  # of 64 KB each
_lateness_ms: Final = Recent[str, deque[float]](_MOST_WINDOWS)


def released(topic: str, late_ms: float) -> None:
    """Counts one release, and how late it was in milliseconds."""
    late_ms = max(0.0, late_ms)
    RELEASED.add(topic)
    RELEASE_LAG.of(topic).observe(late_ms / 1_000)
    window = _lateness_ms.get(topic)
    if window is None:
        window = deque(maxlen=_LATEST)
    window.append(late_ms)
    _lateness_ms.note(topic, window)


def lateness_ms(topic: str) -> Mapping[str, float | None]:
    """Percentiles of the lateness of this process's latest releases of the topic; None if there were none, or if a
    thousand other topics have had a release since."""
    latest = sorted(_lateness_ms.get(topic) or ())
    if not latest:
        return dict.fromkeys(("p50", "p90", "p99", "max"))
    return {
        "p50": latest[len(latest) * 50 // 100],
        "p90": latest[len(latest) * 90 // 100],
        "p99": latest[len(latest) * 99 // 100],
        "max": latest[-1],
    }


_OF_ALL: Final = frozenset({"delaybridge_messages"})  # read from Redis, so the same in every process


def counted_here() -> list[Any]:
    """The metrics of this process as JSON values, for `render` in another process."""
    return [
        [family.name, [[sample.name, sample.labels, sample.value] for sample in family.samples]]
        for family in REGISTRY.collect()
        if family.name not in _OF_ALL
    ]


class _Processes:
    """Collects the metrics of several processes."""

    def __init__(self, name: str, others: Mapping[str, Any]) -> None:
        self._name = name
        self._others = {other: dict(counted) for other, counted in others.items() if counted is not None}

    def collect(self) -> Iterable[Metric]:
        for family in REGISTRY.collect():
            if family.name in _OF_ALL:
                yield family
                continue
            own = [[sample.name, sample.labels, sample.value] for sample in family.samples]
            samples_by_process = {self._name: own} | {
                other: counted.get(family.name, ()) for other, counted in self._others.items()
            }
            each = Metric(family.name, family.documentation, family.type)
            for process, samples in samples_by_process.items():
                for name, labels, value in samples:
                    each.add_sample(name, {**labels, "process": process}, value)
            yield each


def render(name: str, others: Mapping[str, Any]) -> tuple[bytes, str]:
    """The metrics in Prometheus' text format, and their content type.

    Args:
        name: of this process; empty if it is the only one. Then there is no label `process`.
        others: what `counted_here` returned in the other processes; None for one that did not answer.
    """
    return generate_latest(_Processes(name, others) if name else REGISTRY), CONTENT_TYPE_LATEST
