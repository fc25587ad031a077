"""Tests the soak command, as a person starts it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.waiting import HUNG_AFTER_S


@pytest.mark.timeout(HUNG_AFTER_S)
def test_second_round_of_load_leaves_nothing_behind(local_dir: Path) -> None:
    command = [sys.executable, "-m", "tests.soak", "--json", "--minutes", "1", "--rate", "30"]
    done = subprocess.run([*command, "--folder", str(local_dir / "soak")], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["left"] == []
    first, second = found["rounds"]
    assert first["queue"] == second["queue"] > 180
