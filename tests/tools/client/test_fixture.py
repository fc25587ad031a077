"""Tests that the pytest fixture of the Python client starts a bridge with its servers, and stops them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.clients.python.test_fixtures import run_pytest
from tests.waiting import HUNG_AFTER_S


@pytest.mark.timeout(HUNG_AFTER_S)
def test_fixture_starts_and_stops_a_bridge_of_its_own(tmp_path: Path) -> None:
    written = run_pytest(tmp_path, TMPDIR=str(tmp_path))
    assert "1 passed" in written
    assert list(tmp_path.rglob("run.json")) == []  # the stack removes it when it has stopped its servers
