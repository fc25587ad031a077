"""Tests that the metrics of several worker processes appear on one page."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

import bridge.metrics.process  # noqa: F401 - its series are on the page
from bridge.metrics import messages, page
from bridge.metrics.states import STATES, QueueDepth, TopicState


def state(waiting: int) -> TopicState:
    return TopicState(by_state={"waiting": waiting}, by_due={"later": waiting}, oldest_overdue_ms=0, oldest_ready_ms=0)


async def samples(name: str, others: dict[str, object]) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """The values on the rendered page, by sample name and sorted labels."""
    rendered, _ = await page.render(name, others)
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(rendered.decode())
        for sample in family.samples
    }


async def test_counts_have_a_process_label_and_figures_of_servers_have_none() -> None:
    messages.GHOSTS.add("apart", 2)
    STATES.show([("apart", state(7))], [QueueDepth("broker", "refused", 3)])
    other = [["delaybridge_ghosts_dropped", [["delaybridge_ghosts_dropped_total", {"topic": "apart"}, 40.0]]]]

    found = await samples("api-1", {"checkpoint-1": other, "api-2": None})

    topic = ("topic", "apart")
    assert found["delaybridge_ghosts_dropped_total", (("process", "api-1"), topic)] == 2
    assert found["delaybridge_ghosts_dropped_total", (("process", "checkpoint-1"), topic)] == 40
    assert found["delaybridge_messages", (("state", "waiting"), topic)] == 7
    assert found["delaybridge_queue_messages", (("part", "broker"), ("queue", "refused"))] == 3
    apart = {name for name, labels in found if "process" not in dict(labels)}
    assert apart == {
        "delaybridge_messages",
        "delaybridge_waiting_messages",
        "delaybridge_oldest_overdue_seconds",
        "delaybridge_oldest_ready_seconds",
        "delaybridge_queue_messages",
    }


async def test_process_passes_all_its_counts_to_another() -> None:
    messages.released("pooled", 3.0)

    found = await samples("api-1", {"api-2": await page.counted_here()})

    for process in ("api-1", "api-2"):
        assert found["delaybridge_released_total", (("process", process), ("topic", "pooled"))] == 1
        assert found["delaybridge_release_lag_seconds_count", (("process", process),)] >= 1
        assert found["process_resident_memory_bytes", (("process", process),)] > 0


async def test_single_process_has_no_process_label() -> None:
    messages.GHOSTS.add("alone")

    assert (await samples("", {}))["delaybridge_ghosts_dropped_total", (("topic", "alone"),)] == 1


async def test_no_series_says_when_another_was_created() -> None:
    messages.released("created", 3.0)

    assert not [name for name, _ in await samples("", {}) if name.endswith("_created")]
