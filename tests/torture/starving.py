"""Starves the machine: keeps processes busy beside the servers."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bridge.local.server import spawn


@contextmanager
def starved(processes: int, log_file: Path) -> Iterator[None]:
    """Runs as many processes that compute without a pause. The servers have the same priority."""
    busy = [spawn([sys.executable, "-c", "while True: pass"], os.environ, log_file) for _ in range(processes)]
    try:
        yield
    finally:
        for one in busy:
            one.kill()
            one.wait()
