"""Tests that the metrics of several worker processes appear on one page."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry, Counter
from prometheus_client.parser import text_string_to_metric_families

from bridge import metrics
from bridge.model.recent import Recent


def samples(name: str, others: dict[str, object]) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """The values on the rendered page, by sample name and sorted labels."""
    page, _ = metrics.render(name, others)
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(page.decode())
        for sample in family.samples
    }


def test_counts_have_a_process_label_and_redis_gauges_have_none() -> None:
    metrics.GHOSTS.add("apart", 2)
    metrics.counted({("apart", "waiting"): 7})
    other = [["delaybridge_ghosts_dropped", [["delaybridge_ghosts_dropped_total", {"topic": "apart"}, 40.0]]]]

    found = samples("api-1", {"checkpoint-1": other, "api-2": None})

    topic = ("topic", "apart")
    assert found["delaybridge_ghosts_dropped_total", (("process", "api-1"), topic)] == 2
    assert found["delaybridge_ghosts_dropped_total", (("process", "checkpoint-1"), topic)] == 40
    assert found["delaybridge_messages", (("state", "waiting"), topic)] == 7
    assert {dict(labels)["process"] for name, labels in found if name != "delaybridge_messages"} == {
        "api-1",
        "checkpoint-1",
    }


def test_process_passes_all_its_counts_to_another() -> None:
    metrics.released("pooled", 3.0)

    found = samples("api-1", {"api-2": metrics.counted_here()})

    for name in ("delaybridge_released_total", "delaybridge_release_lag_seconds_count"):
        labels = [(("process", process), ("topic", "pooled")) for process in ("api-1", "api-2")]
        assert [found[name, label] for label in labels] == [1, 1]


def test_single_process_has_no_process_label() -> None:
    metrics.GHOSTS.add("alone")

    assert samples("", {})["delaybridge_ghosts_dropped_total", (("topic", "alone"),)] == 1


def test_gauges_of_topics_that_were_not_counted_are_absent() -> None:
    metrics.counted({("gone", "waiting"): 7, ("left", "waiting"): 7})
    metrics.counted({("left", "waiting"): 8})

    gauges = {labels: value for (name, labels), value in samples("", {}).items() if name == "delaybridge_messages"}
    assert gauges == {(("state", "waiting"), ("topic", "left")): 8}


def test_topics_beyond_the_limit_share_a_label(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "MOST_LABELS", 2)
    monkeypatch.setattr(metrics, "_labelled", set())
    children = metrics.Children(Counter("limited", "", ["topic"], registry=CollectorRegistry()))
    for topic in ("first", "second", "third", "fourth", "first"):
        children.of(topic).inc()

    assert [children.of(topic)._value.get() for topic in ("first", "second", metrics.OTHER)] == [2, 1, 2]
    assert list(children._children) == ["first", "second", metrics.OTHER]
    assert metrics.by_label({"second": 1, "third": 2, "fifth": 4}) == {"second": 1, metrics.OTHER: 6}


def test_messages_of_topics_beyond_the_limit_are_summed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "MOST_LABELS", 1)
    monkeypatch.setattr(metrics, "_labelled", set())
    metrics.counted({("a", "waiting"): 1, ("b", "waiting"): 2, ("c", "waiting"): 4})

    gauges = {dict(labels)["topic"]: value for (name, labels), value in samples("", {}).items() if "messages" in name}
    assert gauges == {"a": 1, metrics.OTHER: 6}


def test_lateness_is_kept_of_the_topics_released_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "MOST_LABELS", 0)
    monkeypatch.setattr(metrics, "_lateness_ms", Recent(metrics._MOST_WINDOWS))
    metrics.released("long-ago", 3.0)
    metrics.released("again", 3.0)
    for number in range(metrics._MOST_WINDOWS - 1):
        metrics.released(f"late-{number}", 7.0)
        metrics.released("again", 5.0)

    assert metrics.lateness_ms("long-ago")["max"] is None
    assert metrics.lateness_ms("again")["max"] == 5.0
    assert len(metrics._lateness_ms) == metrics._MOST_WINDOWS
