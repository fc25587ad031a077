"""Tests that the log of a command is not mixed with its output."""

from __future__ import annotations

import json
import logging

import pytest
import structlog

from bridge.cli import audit
from bridge.cli.logs import quiet_libraries
from bridge.loops.audit import Overdue
from bridge.settings.settings import Settings
from tests.command import run_command


def test_warnings_of_an_audit_are_not_in_its_output(monkeypatch: pytest.MonkeyPatch) -> None:
    async def find_overdue(_settings: Settings, _overdue: list[Overdue], *, repair: bool) -> bool:
        structlog.get_logger().warning("topology.unanswered")
        return True

    monkeypatch.setattr(audit, "_find_overdue", find_overdue)
    ended = run_command("audit", "--json", settings={})
    assert json.loads(ended.stdout) == []
    assert "topology.unanswered" in ended.stderr


@pytest.mark.parametrize(
    ("error", "logged"),
    [
        (RuntimeError("unable to perform operation on <TCPTransport closed=True>; the handler is closed"), False),
        (RuntimeError("Response content longer than Content-Length"), True),
        (KeyError("the handler is closed"), True),
    ],
)
def test_client_that_resets_its_connection_is_no_error(error: Exception, logged: bool) -> None:
    record = logging.LogRecord("uvicorn.error", logging.ERROR, "", 0, "Exception in ASGI application", (), None)
    record.exc_info = (type(error), error, None)
    quiet_libraries()
    assert bool(logging.getLogger("uvicorn.error").filter(record)) is logged
