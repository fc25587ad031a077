"""What several worker processes count, on one page."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from bridge import metrics


def told(name: str, others: dict[str, object]) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    page, _ = metrics.render(name, others)
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(page.decode())
        for sample in family.samples
    }


def test_each_process_has_its_own_counts_and_what_is_read_from_redis_is_of_none() -> None:
    metrics.GHOSTS.add("told-apart", 2)
    metrics.counted({("told-apart", "waiting"): 7})
    other = [["delaybridge_ghosts_dropped", [["delaybridge_ghosts_dropped_total", {"topic": "told-apart"}, 40.0]]]]

    found = told("api-1", {"checkpoint-1": other, "api-2": None})

    topic = ("topic", "told-apart")
    assert found["delaybridge_ghosts_dropped_total", (("process", "api-1"), topic)] == 2
    assert found["delaybridge_ghosts_dropped_total", (("process", "checkpoint-1"), topic)] == 40
    assert found["delaybridge_messages", (("state", "waiting"), topic)] == 7
    assert {dict(labels)["process"] for name, labels in found if name != "delaybridge_messages"} == {
        "api-1",
        "checkpoint-1",
    }


def test_what_one_process_tells_another_is_all_that_it_counts() -> None:
    metrics.released("told", 3.0)

    found = told("api-1", {"api-2": metrics.counted_here()})

    for name in ("delaybridge_released_total", "delaybridge_release_lag_seconds_count"):
        labels = [(("process", process), ("topic", "told")) for process in ("api-1", "api-2")]
        assert [found[name, one] for one in labels] == [1, 1]


def test_the_only_process_has_no_label() -> None:
    metrics.GHOSTS.add("alone")

    assert told("", {})["delaybridge_ghosts_dropped_total", (("topic", "alone"),)] == 1
