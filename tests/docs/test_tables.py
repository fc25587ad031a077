"""Compares the tables of docs/operating with the code: every setting, metric and log event, and nothing else."""

from __future__ import annotations

import re

import pytest

from bridge import metrics
from bridge.http.app import OPERATIONS
from bridge.model.action import What
from bridge.model.durations import parse_duration_ms
from bridge.settings.settings import DurationMs, Settings
from tests.docs.documents import PROJECT, rows, section, text

RUNBOOK = text("docs/operating/runbook.md")
SETTINGS = {cells[0].strip("`"): cells[1:] for cells in rows(section(text("docs/operating/settings.md"), "Table"))}
NAMES = {f"BRIDGE_{name.upper()}": name for name in Settings.model_fields}


def test_every_setting_is_in_the_table() -> None:
    assert set(SETTINGS) == set(NAMES)


@pytest.mark.parametrize("variable", SETTINGS)
def test_settings_default_is_the_one_in_the_table(variable: str) -> None:
    name, shown = NAMES[variable], SETTINGS[variable][0].strip("`")
    default = Settings.model_fields[name].default
    if default is None:
        assert shown == "none"
    else:
        assert getattr(Settings.model_validate({name: shown}), name) == default


@pytest.mark.parametrize("variable", SETTINGS)
def test_only_durations_have_the_unit_duration(variable: str) -> None:
    metadata = Settings.model_fields[NAMES[variable]].metadata
    of_durations = list(getattr(DurationMs, "__metadata__", ()))
    is_duration = metadata[: len(of_durations)] == of_durations
    assert (SETTINGS[variable][1] == "duration") == is_duration
    if is_duration:
        assert parse_duration_ms(SETTINGS[variable][0].strip("`")) > 0


def test_every_metric_is_in_the_table_with_its_type() -> None:
    suffix = {"counter": "_total"}
    exposed = {family.name + suffix.get(family.type, ""): family.type for family in metrics.REGISTRY.collect()}
    assert {cells[0].strip("`"): cells[1] for cells in rows(section(RUNBOOK, "Metrics"))} == exposed


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
    assert sorted(listed) == sorted(of_api | set(What))
