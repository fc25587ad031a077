"""Compares the tables of metrics, log events and operators' actions with the code: each of them, and nothing else."""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

import bridge.metrics
from bridge.http.app import OPERATIONS
from bridge.metrics import states
from bridge.metrics.registry import REGISTRY
from bridge.model.action import ActionName
from tests.docs.documents import PROJECT, rows, section, text

RUNBOOK = text("docs/operating/runbook.md")
METRICS = text("docs/metrics.md")


def test_every_metric_is_in_the_table_with_its_type_and_labels() -> None:
    for module in iter_modules(bridge.metrics.__path__, "bridge.metrics."):
        import_module(module.name)
    exposed = {
        family.name + ("_total" if family.type == "counter" else ""): [family.type, ", ".join(labels_of(family.name))]
        for family in REGISTRY.collect()
    }
    assert {cells[0].strip("`"): cells[1:3] for cells in rows(section(METRICS, "Table"))} == exposed


def labels_of(metric: str) -> Sequence[str]:
    """The names of a metric's labels. The collectors of states and of the process have no `_labelnames`."""
    collector: Any = REGISTRY._names_to_collectors.get(metric)
    return states._LABELS.get(metric, ()) if collector is None else collector._labelnames


def test_every_event_of_the_log_is_in_the_table_with_its_level() -> None:
    logged = re.compile(r'\blog\.(info|warning|error|exception)\(\s*"([a-z_.]+)"')
    written = {
        (event, "error" if level == "exception" else level)
        for file in (PROJECT / "bridge").rglob("*.py")
        for level, event in logged.findall(file.read_text())
    }
    assert {(cells[0].strip("`"), cells[1]) for cells in rows(section(RUNBOOK, "Logs"))} == written


def test_every_action_of_operators_is_in_the_table() -> None:
    table = rows(RUNBOOK[RUNBOOK.index("### Operators' actions") :])
    listed = [what for cells in table for what in re.findall(r"`([a-z_]+)`", cells[0])]
    of_api = {operation.what for operation in OPERATIONS if operation.is_action}
    assert sorted(listed) == sorted(of_api | set(ActionName))
