"""Tests that progress is shown on a terminal alone."""

from __future__ import annotations

import pytest

from bridge.cli.progress import progress


@pytest.mark.parametrize(("environment", "shown"), [({"FORCE_COLOR": "1", "TERM": "xterm"}, True), ({}, False)])
def test_progress_is_shown_on_a_terminal_alone(
    environment: dict[str, str], shown: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with progress("messages moved", lambda: 1_234):
        pass
    assert ("1,234 messages moved" in capsys.readouterr().err) is shown
