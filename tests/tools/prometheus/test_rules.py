"""Tests the recording rules and the alerts with promtool, and that each alert says what to do."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.docs.documents import anchors, rows, section, text
from tests.docs.test_tables import METRICS
from tests.tools.prometheus.files import PROMETHEUS, RULE_FILES, Rule, groups, name_of, program, rules

CASES = "rules_test.yml"
ALERTS = [rule for rule in rules() if "alert" in rule]
RECORDED = {rule["record"]: rule["expr"] for rule in rules() if "record" in rule}
TABLE = rows(section(text("docs/operating/runbook.md"), "Alerts"))


def promtool(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([program("promtool"), *arguments], capture_output=True, text=True, timeout=60, check=False)


def test_promtool_finds_no_fault_in_the_rules_and_the_configuration() -> None:
    for kind, files in (("rules", RULE_FILES), ("config", ("prometheus.yml",))):
        checked = promtool("check", kind, *(str(PROMETHEUS / file) for file in files))
        assert checked.returncode == 0, checked.stdout + checked.stderr


def test_each_rule_fires_for_its_samples_and_for_no_others() -> None:
    tested = promtool("test", "rules", str(PROMETHEUS / CASES))
    assert tested.returncode == 0, tested.stdout + tested.stderr


@pytest.mark.parametrize("removed", [name_of(rule) for rule in rules()])
def test_cases_fail_without_the_rule(removed: str, tmp_path: Path) -> None:
    for file in RULE_FILES:
        kept = [
            {**group, "rules": [rule for rule in group["rules"] if name_of(rule) != removed]} for group in groups(file)
        ]
        (tmp_path / file).write_text(yaml.safe_dump({"groups": [group for group in kept if group["rules"]]}))
    # The other cases would only take time.
    alerts = [name_of(rule) for rule in ALERTS if removed == name_of(rule) or removed in rule["expr"]]
    cases = yaml.safe_load((PROMETHEUS / CASES).read_text())
    cases["tests"] = [case for case in cases["tests"] if any(f'"{alert}"' in str(case) for alert in alerts)]
    assert cases["tests"]
    (tmp_path / CASES).write_text(yaml.safe_dump(cases))
    tested = promtool("test", "rules", str(tmp_path / CASES))
    assert tested.returncode == 1
    assert "got:" in tested.stdout + tested.stderr  # a sample is missing, and no file is broken


def test_no_two_rules_have_one_name() -> None:
    names = [name_of(rule) for rule in rules()]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("alert", ALERTS, ids=name_of)
def test_alert_says_how_urgent_it_is_and_leads_to_its_place_in_the_runbook(alert: Rule) -> None:
    assert alert["labels"]["severity"] in {"critical", "warning"}
    notes = alert["annotations"]
    assert notes.keys() == {"summary", "description", "runbook_url"}
    assert len(notes["description"].split()) >= 15
    page, _, anchor = notes["runbook_url"].partition("#")
    assert (page, anchor) == ("docs/operating/runbook.md", alert["alert"].lower())
    assert anchor in anchors(text(page))


def test_runbook_has_no_alert_that_is_gone() -> None:
    headings = re.findall(r"^### (Delaybridge\w+)$", text("docs/operating/runbook.md"), re.MULTILINE)
    assert headings == [alert["alert"] for alert in ALERTS]


def test_runbook_lists_each_alert_with_its_severity() -> None:
    listed = [(cells[0], cells[3]) for cells in TABLE]
    names = [alert["alert"] for alert in ALERTS]
    assert listed == [
        (f"[{name.removeprefix('Delaybridge')}](#{name.lower()})", alert["labels"]["severity"])
        for name, alert in zip(names, ALERTS, strict=True)
    ]


@pytest.mark.parametrize(("alert", "cells"), list(zip(ALERTS, TABLE, strict=True)), ids=map(name_of, ALERTS))
def test_runbook_lists_the_metric_the_threshold_and_the_duration_of_an_alert(alert: Rule, cells: list[str]) -> None:
    metric, fires_at = cells[1].strip("`"), cells[2]
    threshold, _, duration = fires_at.rpartition(", ") if "for" in alert else (fires_at, "", "")
    expression = re.sub(r"delaybridge:\w+:\w+", lambda name: f"{name[0]} {RECORDED[name[0]]}", alert["expr"])
    compared = re.findall(r"(?:==|>|<) (\d[\d.]*)", alert["expr"])

    assert duration == alert.get("for", "")
    assert re.search(rf"\b{metric}(?:_bucket)?\b", expression)
    assert set(compared) <= set(_numbers(threshold)) <= set(_numbers(expression))


def _numbers(text: str) -> list[str]:
    return re.findall(r"\d+(?:\.\d+)?", text)


def test_rules_use_only_metrics_that_the_bridge_has() -> None:
    listed = set(re.findall(r"^\| `(\w+)` \|", METRICS, re.MULTILINE))
    used = {name for rule in rules() for name in re.findall(r"\b(?:delaybridge|process)_\w+\b", rule["expr"])}
    used -= {f"{name}_{end}" for name in listed for end in ("bucket", "count", "sum")}
    assert used - listed == set()
