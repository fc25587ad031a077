"""Writes counters, gauges and histograms in Prometheus' text format, under lmstfy's names.

The Prometheus client library can't do this: it ends the name of every counter in `_total`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

Labels = tuple[str, ...]

MOST_ROWS = 10_000
"""The most rows of a counter or a histogram; a row is one combination of label values. All further combinations share
one more row. Clients choose the queues, and with open access also the namespaces, so they could make any number of
rows. A gauge has a row for each queue that exists."""

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@dataclass
class Counter:
    """A counter, or with `kind` `gauge` a gauge. Only gauges use `set`. `labels`: the names of the labels. `values`:
    the value for each combination of label values."""

    name: str
    help: str
    labels: Sequence[str]
    kind: str = "counter"
    values: dict[Labels, float] = field(default_factory=dict)

    def add(self, *labels: str, amount: float = 1) -> None:
        labels = _row(self.values, labels)
        self.values[labels] = self.values.get(labels, 0) + amount

    def set(self, *labels: str, to: float) -> None:
        self.values[labels] = to

    def lines(self) -> Iterator[str]:
        for labels, value in sorted(self.values.items()):
            yield f"{self.name}{_braces(self.labels, labels)} {_number(value)}"


@dataclass
class Histogram:
    """A histogram. `edges`: the buckets' inclusive upper bounds. `values`: for each combination of label values, the
    numbers of observations in the buckets, and the sum of the observed values."""

    name: str
    help: str
    labels: Sequence[str]
    edges: Sequence[float]
    kind: str = "histogram"
    values: dict[Labels, tuple[list[int], float]] = field(default_factory=dict)

    def observe(self, *labels: str, value: float) -> None:
        labels = _row(self.values, labels)
        counts, total = self.values.get(labels) or ([0] * (len(self.edges) + 1), 0.0)
        counts[bisect_left(self.edges, value)] += 1
        self.values[labels] = (counts, total + value)

    def lines(self) -> Iterator[str]:
        for labels, (counts, total) in sorted(self.values.items()):
            cumulative = 0
            for edge, count in zip((*map(_number, self.edges), "+Inf"), counts, strict=True):
                cumulative += count
                yield f"{self.name}_bucket{_braces((*self.labels, 'le'), (*labels, edge))} {cumulative}"
            yield f"{self.name}_sum{_braces(self.labels, labels)} {_number(total)}"
            yield f"{self.name}_count{_braces(self.labels, labels)} {cumulative}"


def render(families: Sequence[Counter | Histogram]) -> str:
    lines: list[str] = []
    for family in families:
        lines += [f"# HELP {family.name} {family.help}", f"# TYPE {family.name} {family.kind}", *family.lines()]
    return "\n".join([*lines, ""])


def _row(values: Mapping[Labels, object], labels: Labels) -> Labels:
    """Returns the label values to count under. Beyond `MOST_ROWS` rows, all new label values share one row."""
    return labels if labels in values or len(values) < MOST_ROWS else ("(other)",) * len(labels)


def _number(value: float) -> str:
    return repr(int(value)) if value == int(value) else repr(value)


def _braces(names: Sequence[str], values: Labels) -> str:
    pairs = (f'{name}="{_escaped(value)}"' for name, value in zip(names, values, strict=True))
    return f"{{{','.join(pairs)}}}" if names else ""


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
