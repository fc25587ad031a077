"""Names the files for Prometheus and Grafana, and the programs that judge them."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

PROJECT = Path(__file__).parents[3]
PROMETHEUS = PROJECT / "deploy" / "prometheus"
DASHBOARD = PROJECT / "deploy" / "grafana" / "delaybridge.json"
RULE_FILES = ("recording.yml", "alerts.yml")

Rule = dict[str, Any]


def program(name: str) -> str:
    """The path of a program of Prometheus. Without it the test is skipped, and says what is missing."""
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"{name} is missing, so nothing judges deploy/prometheus: apt-get install prometheus")
    return path


def groups(file: str) -> list[dict[str, Any]]:
    content: dict[str, Any] = yaml.safe_load((PROMETHEUS / file).read_text())
    found: list[dict[str, Any]] = content["groups"]
    return found


def rules() -> list[Rule]:
    """All rules: those that record, and those that alert."""
    return [rule for file in RULE_FILES for group in groups(file) for rule in group["rules"]]


def name_of(rule: Rule) -> str:
    name: str = rule.get("alert") or rule["record"]
    return name
