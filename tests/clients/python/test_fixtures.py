"""Tests the pytest fixtures of the Python client in a pytest of its own. `tests/tools/client` starts real servers."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

PLUGIN = "delaybridge_client.testing"
TESTS = """
from delaybridge_client import SyncClient

def test_sends(delaybridge, delaybridge_topic):
    with SyncClient(delaybridge.url) as client:
        assert client.send(delaybridge_topic, 1).topic == delaybridge_topic
"""


def run_pytest(folder: Path, **environment: str) -> str:
    """Runs TESTS in a folder of its own, and returns what pytest prints."""
    (folder / "test_own.py").write_text(TESTS)
    (folder / "pytest.ini").write_text("[pytest]\n")
    # Loading every plugin of this environment would take most of the time.
    command = [sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", "-p", PLUGIN, "test_own.py"]
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "BRIDGE_"))}
    inherited["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    done = subprocess.run(command, cwd=folder, env={**inherited, **environment}, stdout=subprocess.PIPE, check=False)
    return done.stdout.decode()


def test_fixture_uses_the_bridge_that_the_environment_names(bridge_url: str, tmp_path: Path) -> None:
    assert "1 passed" in run_pytest(tmp_path, DELAYBRIDGE_TEST_URL=bridge_url)


def test_test_is_skipped_with_the_reason_where_a_program_is_missing(tmp_path: Path) -> None:
    written = run_pytest(tmp_path, PATH="/nowhere")
    assert "1 skipped" in written
    assert "needs the programs of RabbitMQ and Redis: apt install rabbitmq-server redis-server" in written


def test_pytest_loads_the_fixtures_by_itself() -> None:
    assert entry_points(group="pytest11")["delaybridge"].value == PLUGIN
