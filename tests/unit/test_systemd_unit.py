"""Tests that the unit file is valid, and that its limits fit the settings."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from bridge.settings.settings import Settings

UNIT = Path(__file__).parents[2] / "deploy" / "systemd" / "delaybridge.service"
ANALYZE = shutil.which("systemd-analyze")
PROGRAM = str(Path(sys.executable).parent / "delaybridge")


def values(key: str) -> list[str]:
    lines = [line.partition("=") for line in UNIT.read_text().splitlines()]
    return [value for name, _, value in lines if name == key]


@pytest.mark.skipif(ANALYZE is None, reason="systemd-analyze is not installed")
def test_systemd_finds_no_fault_and_little_exposure(tmp_path: Path) -> None:
    assert ANALYZE is not None
    unit = tmp_path / UNIT.name
    unit.write_text(UNIT.read_text().replace("/opt/delaybridge/bin/delaybridge", PROGRAM))
    verified = subprocess.run([ANALYZE, "verify", unit], capture_output=True, text=True, check=False)
    assert (verified.returncode, verified.stderr) == (0, "")
    exposed = [ANALYZE, "security", "--offline=true", "--threshold=15", str(unit)]
    assert subprocess.run(exposed, capture_output=True, check=False).returncode == 0
    unit.write_text(unit.read_text().replace("WatchdogSec=30", "WatchdogSec=often"))
    assert "often" in subprocess.run([ANALYZE, "verify", unit], capture_output=True, text=True, check=False).stderr


def test_limits_fit_the_settings() -> None:
    settings = Settings()
    stop_s = (settings.drain + 2 * settings.grace) / 1_000 + 5
    assert int(values("TimeoutStopSec")[0]) > stop_s
    assert int(values("LimitNOFILE")[0]) > settings.max_connections + 256
    assert int(values("WatchdogSec")[0]) > 4 * max(settings.store_timeout, settings.broker_timeout) / 1_000
    credentials = {value.partition(":")[0].removeprefix("bridge_") for value in values("LoadCredential")}
    assert credentials - {"delaybridge.toml"} <= Settings.model_fields.keys()
