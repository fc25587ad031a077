"""Writes the metrics of this process, and of the other worker processes, in Prometheus' text format.

If several worker processes answer on one port, each shows the counters of all of them, with the label `process`. A sum
of the counters would shrink when one process restarts. Prometheus would take that for a restart of all processes, and
show a false rate.

A page has thousands of lines. Other tasks of the event loop get a turn after each metric, so that a scrape does not
delay the release of messages.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.metrics_core import Metric

from bridge.metrics import states
from bridge.metrics.registry import REGISTRY


async def counted_here() -> list[Any]:
    """Returns the metrics of this process as JSON values, for `render` in another process: pairs of a metric's name and
    its samples. A sample is name, labels and value. Metrics of `states` are left out: every process has them."""
    counted: list[Any] = []
    for family in REGISTRY.collect():
        if family.name not in states.NAMES:
            counted.append([family.name, _samples(family)])
            await asyncio.sleep(0)
    return counted


async def render(name: str, others: Mapping[str, Any]) -> tuple[bytes, str]:
    """Returns the metrics of this and the other processes in Prometheus' text format, and the content type.

    Args:
        name: the name of this process; empty if it is the only one. Then there is no label `process`.
        others: what `counted_here` returned in each other process, by name; None if the process did not answer.
    """
    by_process = {other: dict(counted) for other, counted in others.items() if counted is not None}
    lines: list[bytes] = []
    for family in REGISTRY.collect():
        shown = family
        if name and family.name not in states.NAMES:
            shown = _of_processes(family, {name: _samples(family)} | _named(family.name, by_process))
        lines.append(generate_latest(_OneMetric(shown)))
        await asyncio.sleep(0)
    return b"".join(lines), CONTENT_TYPE_LATEST


class _OneMetric:
    """Gives one metric to `generate_latest`, which takes a collector."""

    def __init__(self, family: Metric) -> None:
        self._family = family

    def collect(self) -> Iterable[Metric]:
        return (self._family,)


def _samples(family: Metric) -> list[Any]:
    return [[sample.name, sample.labels, sample.value] for sample in family.samples]


def _named(metric: str, by_process: Mapping[str, Mapping[str, Any]]) -> dict[str, list[Any]]:
    return {process: counted.get(metric, []) for process, counted in by_process.items()}


def _of_processes(family: Metric, samples_by_process: Mapping[str, list[Any]]) -> Metric:
    """Returns the metric with the samples of all processes. The label `process` tells the processes apart."""
    each = Metric(family.name, family.documentation, family.type)
    for process, samples in samples_by_process.items():
        for name, labels, value in samples:
            each.add_sample(name, {**labels, "process": process}, value)
    return each
