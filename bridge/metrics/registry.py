"""Makes the Prometheus metrics of this process. All their names begin with `delaybridge_`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics

REGISTRY: Final = CollectorRegistry()

# A `_created` series beside each counter would double their number, and no rule reads it.
disable_created_metrics()  # type: ignore[no-untyped-call]


def counter(name: str, text: str, *labels: str) -> Counter:
    """Makes a counter, `delaybridge_<name>_total`. `text`: its description. `labels`: the names of its labels."""
    return Counter(f"delaybridge_{name}", text, labels, registry=REGISTRY)


def gauge(name: str, text: str, *labels: str) -> Gauge:
    return Gauge(f"delaybridge_{name}", text, labels, registry=REGISTRY)


def histogram(name: str, text: str, *labels: str, buckets: Sequence[float]) -> Histogram:
    """Makes a histogram, `delaybridge_<name>`. `text`: its description. `labels`: the names of its labels. `buckets`:
    the upper bounds of the buckets, without the last bound, which is infinite."""
    return Histogram(f"delaybridge_{name}", text, labels, registry=REGISTRY, buckets=buckets)
