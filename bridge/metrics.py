"""What the process counts, for Prometheus. Counters are this process's; gauges are read from Redis when scraped.

Where several worker processes answer on one port, each shows what all of them count, told apart by a label. Summed up
they would shrink when one of them is started again, which Prometheus takes for all having begun anew.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any, Final

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.metrics_core import Metric

REGISTRY: Final = CollectorRegistry()
_TOPIC: Final = ["topic"]


class ByTopic:
    """A counter by topic. Its children are looked up here: the library's own look-up costs 3 µs a call."""

    def __init__(self, name: str, text: str) -> None:
        self._counter = Counter(f"delaybridge_{name}", text, _TOPIC, registry=REGISTRY)
        self._children: dict[str, Counter] = {}

    def add(self, topic: str, amount: int = 1) -> None:
        child = self._children.get(topic)
        if child is None:
            child = self._children[topic] = self._counter.labels(topic)
        child.inc(amount)


ACCEPTED: Final = ByTopic("accepted", "Sends answered as accepted")
RELEASED: Final = ByTopic("released", "Copies released into a ready queue by the checkpoint")
DELIVERED: Final = ByTopic("delivered", "Deliveries handed out over HTTP")
ACKED: Final = ByTopic("acked", "Messages recorded as acknowledged")
DELETED: Final = ByTopic("deleted", "Messages deleted")
EXPIRED: Final = ByTopic("expired", "Messages whose time to live passed")
DEAD: Final = ByTopic("dead", "Messages that became dead letters")
RETRIED: Final = ByTopic("retried", "Copies sent round again after a failed delivery over AMQP")
GHOSTS: Final = ByTopic("ghosts_dropped", "Superseded copies dropped")
RESENT: Final = ByTopic("resent", "Messages sent again because their copy was lost")
PUSHED: Final = ByTopic("pushed", "Callbacks that the receiver has taken")
PUSH_HELD: Final = ByTopic("push_held", "Callbacks whose receiver asked to be left alone for a while")
PUSH_FAILED: Final = Counter("delaybridge_push_failed", "Callbacks that failed", ["topic", "reason"], registry=REGISTRY)
PUSH_SECONDS: Final = Histogram(
    "delaybridge_push_seconds",
    "From the beginning of a callback to the end of its answer",
    _TOPIC,
    registry=REGISTRY,
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300),
)
REFUSED: Final = Counter(
    "delaybridge_refused", "Copies put aside because they could not be understood", registry=REGISTRY
)
HTTP_REFUSED: Final = Counter(
    "delaybridge_http_refused",
    "Requests refused and clients cut off at the front door",
    ["status"],
    registry=REGISTRY,
)
ACCESS_REFUSED: Final = Counter(
    "delaybridge_access_refused",
    "Requests refused as their token, if any, does not allow them",
    ["kind"],
    registry=REGISTRY,
)
RELEASE_LAG: Final = Histogram(
    "delaybridge_release_lag_seconds",
    "From the due moment to the release into the ready queue, confirmed",
    _TOPIC,
    registry=REGISTRY,
    buckets=(0.001, 0.002, 0.003, 0.005, 0.0075, 0.01, 0.015, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60, 600),
)
MESSAGES: Final = Gauge(
    "delaybridge_messages", "Messages by state (waiting, ready, leased)", ["topic", "state"], registry=REGISTRY
)
BREAKER: Final = Gauge(
    "delaybridge_breaker", "0 closed, 1 half-open, 2 open: calls of the part are refused", ["part"], registry=REGISTRY
)
OVERDUE: Final = Gauge(
    "delaybridge_overdue", "Messages found with no live copy, as of the last audit", _TOPIC, registry=REGISTRY
)
FINDINGS: Final = Gauge(
    "delaybridge_findings", "What the last look at the servers found, by severity", ["severity"], registry=REGISTRY
)
UP: Final = Gauge("delaybridge_up", "1 where the part is well (broker, store, checkpoint)", ["part"], registry=REGISTRY)


def counted(messages: Mapping[tuple[str, str], int]) -> None:
    """Sets the gauges of messages, by topic and state."""
    for (topic, state), count in messages.items():
        MESSAGES.labels(topic, state).set(count)


_LATEST: Final = 2_048
_lateness_ms: dict[str, deque[float]] = {}
_lags: dict[str, Histogram] = {}


def released(topic: str, late_ms: float) -> None:
    """Counts one release and how late it was."""
    RELEASED.add(topic)
    if topic not in _lateness_ms:
        _lateness_ms[topic] = deque(maxlen=_LATEST)
        _lags[topic] = RELEASE_LAG.labels(topic)
    _lags[topic].observe(max(0.0, late_ms) / 1_000)
    _lateness_ms[topic].append(max(0.0, late_ms))


def lateness_ms(topic: str) -> Mapping[str, float | None]:
    """Percentiles of this process's latest releases of the topic; None where there were none."""
    latest = sorted(_lateness_ms.get(topic, ()))
    if not latest:
        return dict.fromkeys(("p50", "p90", "p99", "max"))
    return {
        "p50": latest[len(latest) * 50 // 100],
        "p90": latest[len(latest) * 90 // 100],
        "p99": latest[len(latest) * 99 // 100],
        "max": latest[-1],
    }


_OF_ALL: Final = frozenset({"delaybridge_messages"})  # read from Redis: of no process


def counted_here() -> list[Any]:
    """What this process counts, as JSON has it, for `render` in another."""
    return [
        [family.name, [[sample.name, sample.labels, sample.value] for sample in family.samples]]
        for family in REGISTRY.collect()
        if family.name not in _OF_ALL
    ]


class _Processes:
    """What several processes count, as one collector."""

    def __init__(self, name: str, others: Mapping[str, Any]) -> None:
        self._name = name
        self._others = {other: dict(counted) for other, counted in others.items() if counted is not None}

    def collect(self) -> Iterable[Metric]:
        for family in REGISTRY.collect():
            if family.name in _OF_ALL:
                yield family
                continue
            own = [[sample.name, sample.labels, sample.value] for sample in family.samples]
            told = {self._name: own} | {other: counted.get(family.name, ()) for other, counted in self._others.items()}
            each = Metric(family.name, family.documentation, family.type)
            for process, samples in told.items():
                for name, labels, value in samples:
                    each.add_sample(name, {**labels, "process": process}, value)
            yield each


def render(name: str, others: Mapping[str, Any]) -> tuple[bytes, str]:
    """The exposition and its content type: of this process `name`, and with it what each of the `others` counts (None:
    it did not say). With no name it is the only one, and no label says which it is."""
    return generate_latest(_Processes(name, others) if name else REGISTRY), CONTENT_TYPE_LATEST
