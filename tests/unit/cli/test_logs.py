"""Tests that the log of a command is not mixed with its output."""

from __future__ import annotations

import json

import pytest
import structlog

from bridge.cli import audit
from bridge.loops.audit import Overdue
from bridge.settings.settings import Settings
from tests.command import run_command


def test_warnings_of_an_audit_are_not_in_its_output(monkeypatch: pytest.MonkeyPatch) -> None:
    async def find_overdue(_settings: Settings, _repair: bool) -> list[Overdue]:
        structlog.get_logger().warning("topology.unanswered")
        return []

    monkeypatch.setattr(audit, "_find_overdue", find_overdue)
    ended = run_command("audit", "--json", settings={})
    assert json.loads(ended.stdout) == []
    assert "topology.unanswered" in ended.stderr
