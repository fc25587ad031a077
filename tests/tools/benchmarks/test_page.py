"""Tests that the page and its plots are made from the JSON alone."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

import orjson
import pytest

from benchmarks import plots
from benchmarks.page import drawings, has_figures, page, with_figures
from tests.docs.documents import PROJECT

AFTER: dict[str, Any] = {
    "machine": {"cpus": 2, "cpu": "some", "memory_gib": 8.0, "system": "Linux", "kernel": "6", "load": [1, 1, 1]},
    "versions": {"rabbitmq": "4.3.6"},
    "commit": "c0ffee",
    "quick": False,
    "runs": {"sends": "How many.", "cycle": "The whole way."},
    "took_s": {"sends": 60},
    "failed": {"cycle http": "BenchError: no"},
    "peers": {"celery": "a quorum queue has it", "bullmq, always": "Redis has it"},
    "rows": [
        {"row": "sends single best", "value": 6000, "unit": "messages/s", "goal": "≥ 5,500", "met": True},
        {"row": "sends single", "value": 3000, "unit": "messages/s", "goal": "≥ 3,500", "met": False},
        {"row": "sends single cpu bridge", "value": 0.2, "unit": "CPU s/1,000", "goal": None, "met": None},
        {"row": "sends single cpu redis", "value": 0.1, "unit": "CPU s/1,000", "goal": None, "met": None},
        {"row": "peer celery single", "value": 790, "unit": "messages/s", "goal": None, "met": None},
        {
            "row": "peer bullmq, always single",
            "value": None,
            "unit": "messages/s",
            "goal": None,
            "met": None,
            "not_run": "no node",
        },
    ],
    "series": [
        {"name": "lateness", "x": "% of messages", "y": "ms late", "lines": {"lateness": [[50, 2.0], [100, 30.0]]}},
        {"name": "memory", "x": "messages waiting", "y": "MiB", "lines": {"redis": [[200, 10.0], [1000, 50.0]]}},
    ],
}
BEFORE = AFTER | {
    "commit": "decade",
    "rows": [{"row": "sends single", "value": 2000, "unit": "messages/s", "goal": "≥ 3,000", "met": False}],
}


def test_a_missed_goal_is_named() -> None:
    made = page(AFTER)
    assert "Missed: sends single." in made
    assert "| sends single | 3,000 | messages/s | ≥ 3,500 | **missed** |" in made


def test_a_part_that_failed_is_shown_with_its_run() -> None:
    assert "**cycle http failed.** BenchError: no" in page(AFTER)


def test_a_peer_that_was_not_run_says_why() -> None:
    made = page(AFTER)
    assert "| bullmq, always | - | - | - | - | - | Redis has it |" in made
    assert "Not run: no node." in made


def test_figures_before_and_after_share_a_row() -> None:
    made = page(AFTER, BEFORE)
    assert "| sends single | 2,000 | 3,000 | messages/s | 1.50x |" in made
    assert "| sends single best | - | 6,000 | messages/s |  |" in made


def test_every_plot_of_the_page_is_drawn_and_well_formed() -> None:
    drawn = drawings(AFTER)
    made = page(AFTER)
    assert set(drawn) == {"cpu.svg", "lateness.svg", "memory.svg", "peers-single.svg", "peers-cycle.svg"}
    for name, svg in drawn.items():
        assert f"(plots/{name})" in made or name in {"lateness.svg", "memory.svg"}
        ElementTree.fromstring(svg)


def test_a_page_can_be_written_again_from_earlier_figures() -> None:
    before = orjson.loads((PROJECT / "docs" / "benchmarks" / "before.json").read_bytes())
    made = page(before)
    assert all(f"| {row['row']} |" in made or " cpu " in row["row"] for row in before["rows"])


def test_documents_have_the_figures_of_their_json() -> None:
    document = (PROJECT / "docs" / "benchmarks.md").read_text()
    after = orjson.loads((PROJECT / "docs" / "benchmarks" / "after.json").read_bytes())
    assert has_figures(document)
    assert with_figures(document, after) == document


@pytest.mark.parametrize(("most", "top"), [(0.9, 1.0), (1_000_000, 1_000_000), (7, 8), (0, 1.0)])
def test_a_linear_axis_ends_at_a_round_value_that_is_not_below_any(most: float, top: float) -> None:
    axis = plots.linear("x", [0.0, most])
    assert axis.ticks[-1][0] == pytest.approx(top)
    assert 0 <= axis.place(most) <= 1


def test_a_logarithmic_axis_holds_zero_and_smaller_values() -> None:
    axis = plots.logarithmic("ms", [-3.0, 0.0, 5.0, 950.0])
    assert [value for value, _ in axis.ticks] == [0.1, 1, 10, 100, 1_000]
    assert axis.place(-3.0) == axis.place(0.1) == 0
    assert axis.place(1_000) == 1


def test_the_axis_of_percents_gives_each_nine_the_same_place() -> None:
    place = plots.percents("%").place
    assert place(0) == 0
    assert place(99) - place(90) == pytest.approx(place(90) - place(0))
    assert place(100) == place(99.9) == pytest.approx(1)


def test_bars_are_as_long_as_their_values() -> None:
    drawn = ElementTree.fromstring(plots.bars("b", {"one": {"a": 1.0, "b": 2.0}, "two": {"a": 6.0}}, "s"))
    widths = [float(part.attrib["width"]) for part in drawn if part.tag.endswith("rect") and "x" in part.attrib]
    assert widths[1] == pytest.approx(2 * widths[0], abs=0.2)
    assert widths[2] == pytest.approx(6 * widths[0], abs=0.4)
