"""Runs a bridge of an earlier commit with the packages of this checkout's environment."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from bridge.local.bridge import BridgeProcess

PROJECT: Final = Path(__file__).parents[3]

EARLIER: Final = "c7af041e3d95c0efbbe9a1d523964528ba043728"
"""The commit that gave slots their present names, before which no two builds shared a wheel. Once there is a release,
this is the last one."""


class EarlierBridge(BridgeProcess):
    """One `delaybridge serve` of the code in a folder."""

    code: Path

    def command(self) -> list[str]:
        # Without -P the first place to look for modules would be the working folder, which is this checkout.
        return [sys.executable, "-P", "-m", "bridge", "serve"]

    def environment(self) -> dict[str, str]:
        return super().environment() | {"PYTHONPATH": str(self.code)}


def unpacked(folder: Path) -> Path:
    """Unpacks the code of the earlier commit into a new folder. In a clone without the commit the test is skipped, and
    says what is missing."""
    archive = subprocess.run(
        ["git", "archive", EARLIER, "bridge", "topology"], cwd=PROJECT, capture_output=True, check=False
    )
    if archive.returncode:
        pytest.skip(
            f"the commit {EARLIER[:10]} is not in this clone, so no earlier bridge can run: git fetch --unshallow "
            f"({archive.stderr.decode().strip()})"
        )
    folder.mkdir()
    subprocess.run(["tar", "--extract", f"--directory={folder}"], input=archive.stdout, check=True)
    return folder


def origin(code: Path) -> Path:
    """The file from which an earlier bridge imports its package."""
    bridge = EarlierBridge(code / "log", 0, {})
    bridge.code = code
    program = [*bridge.command()[:2], "-c", "import bridge; print(bridge.__file__)"]
    done = subprocess.run(program, env=bridge.environment(), capture_output=True, text=True, check=True)
    return Path(done.stdout.strip())
