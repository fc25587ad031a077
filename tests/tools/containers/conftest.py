"""Provides podman, and removes its containers after the tests of each file."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator

import pytest

from tests.tools.containers.engine import FOLDER, Engine, missing


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    """podman for the tests of one file; those of another file wait. Without podman the tests are skipped."""
    if lacking := missing():
        pytest.skip(f"no containers here: {lacking}")
    FOLDER.mkdir(parents=True, exist_ok=True)
    with (FOLDER / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        podman = Engine()
        podman.clear()  # of a run that was killed
        try:
            yield podman
        finally:
            podman.clear()
