"""Reads how many messages this process has accepted, released and delivered so far, and how late it released them. The
overview shows both (`bridge/service/pools/overview.py`).

The counts come from the metrics. `counted_here` returns JSON values, because another process may ask for them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from bridge.metrics.registry import REGISTRY

STEPS: Final = ("accepted", "released", "delivered", "acked", "dead")
"""The steps in a message's life that metrics count by topic: `delaybridge_accepted_total` and so on."""

_COUNTERS: Final = {f"delaybridge_{step}_total": step for step in (*STEPS, "released_late")}
_LAG: Final = "delaybridge_release_lag_seconds"


@dataclass(frozen=True, slots=True)
class FlowCounts:
    """The sums of the counts of several processes, each since its process started. `at_s`: when the counts were read,
    in seconds of `monotonic()`. `by_step`: messages by step, then by the topic's label; also `released_late`. `lags`:
    for each bucket's upper bound in seconds, how many releases were at most so late."""

    at_s: float
    by_step: Mapping[str, Mapping[str, float]]
    lags: Mapping[float, float]


@dataclass(frozen=True, slots=True)
class Lateness:
    """How late the releases of an interval of `over_s` seconds were. `late`: how many of the `released` copies were
    later than 100 ms. `p50_ms` and `p99_ms`: percentiles of the lateness, rounded up to the bound of a bucket of
    `delaybridge_release_lag_seconds`. None: there was no release, or the percentile is beyond the last bound, 600 s."""

    released: int
    late: int
    p50_ms: float | None
    p99_ms: float | None
    over_s: float


async def counted_here() -> Mapping[str, Any]:
    """Returns the counts of this process since it started, as JSON values for `summed`.

    `by_step`: messages by step, then by the topic's label. `lags`: pairs of a bucket's upper bound in seconds, as text,
    and the number of releases that were at most so late.
    """
    by_step: dict[str, dict[str, float]] = {step: {} for step in _COUNTERS.values()}
    lags: list[tuple[float, float]] = []
    names = [*_COUNTERS, f"{_LAG}_bucket"]
    for family in REGISTRY.restricted_registry(names).collect():
        for sample in family.samples:
            if sample.name in _COUNTERS:
                of_topics = by_step[_COUNTERS[sample.name]]
                topic = sample.labels["topic"]
                of_topics[topic] = of_topics.get(topic, 0) + sample.value
            elif sample.name == f"{_LAG}_bucket":
                lags.append((float(sample.labels["le"]), sample.value))
    return {"by_step": by_step, "lags": [[str(bound), count] for bound, count in lags]}


def summed(at_s: float, counts: Iterable[Mapping[str, Any] | None]) -> FlowCounts:
    """Returns the sums of the counts of several processes. `at_s`: when the counts were read, in seconds of
    `monotonic()`. `counts`: what `counted_here` returned in each process; None: the process did not answer."""
    by_step: dict[str, dict[str, float]] = {step: {} for step in _COUNTERS.values()}
    lags: dict[float, float] = {}
    for counted in counts:
        if counted is None:
            continue
        for step, of_topics in counted["by_step"].items():
            for topic, number in of_topics.items():
                by_step[step][topic] = by_step[step].get(topic, 0) + number
        for bound, number in counted["lags"]:
            lags[float(bound)] = lags.get(float(bound), 0) + number
    return FlowCounts(at_s, by_step, lags)


def rates(before: FlowCounts, now: FlowCounts) -> dict[str, dict[str, float]]:
    """Returns messages a second between two readings, by step, then by the topic's label. A restarted process counts
    from 0, so a sum that became smaller gives a rate of 0."""
    over_s = max(now.at_s - before.at_s, 0.001)
    return {
        step: {
            topic: max(0.0, number - before.by_step[step].get(topic, 0)) / over_s
            for topic, number in now.by_step[step].items()
        }
        for step in STEPS
    }


def lateness(before: FlowCounts, now: FlowCounts) -> Lateness:
    """Returns how late the releases between two readings were, of all topics together."""
    counts = [(bound, max(0.0, number - before.lags.get(bound, 0))) for bound, number in sorted(now.lags.items())]
    released = int(counts[-1][1]) if counts else 0
    late = sum(now.by_step["released_late"].values()) - sum(before.by_step["released_late"].values())
    return Lateness(
        released=released,
        late=max(0, int(late)),
        p50_ms=_at_most_ms(counts, released * 0.5),
        p99_ms=_at_most_ms(counts, released * 0.99),
        over_s=now.at_s - before.at_s,
    )


def _at_most_ms(counts: Sequence[tuple[float, float]], rank: float) -> float | None:
    bound_s = next((bound for bound, number in counts if number >= rank > 0), float("inf"))
    return None if bound_s == float("inf") else bound_s * 1_000
