"""Chooses the folder in which the servers of a test run keep their data: in memory where there is room.

Servers flush their files before they answer, and a disk makes each of them wait for that. The tests kill processes,
never the machine, and what a process has written to memory outlives it as on a disk.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

PROJECT = Path(__file__).parent.parent
MEMORY = Path("/dev/shm")
ROOM_BYTES = 4 << 30  # a run writes 0.5 GB
_NAME = "delaybridge-test-"


def run_folder() -> Path:
    """Returns a new folder for this process. Deletes those of runs that were killed."""
    _delete_abandoned(MEMORY)
    in_memory = os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free >= ROOM_BYTES
    return (MEMORY if in_memory else PROJECT / ".local") / f"{_NAME}{os.getpid()}"


def _delete_abandoned(parent: Path) -> None:
    for folder in parent.glob(f"{_NAME}*"):
        if not Path("/proc", folder.name.removeprefix(_NAME)).exists():
            shutil.rmtree(folder, ignore_errors=True)
