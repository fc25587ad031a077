"""Starves the machine: keeps processes busy beside the servers."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bridge.local.server import spawn

_PRIORITY = -10


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


def first_served() -> bool:
    """Gives this thread a higher priority than the servers, which other threads start. Returns whether it may.

    All connections pass through the proxies in this process. If it starved, every server would seem to be away.
    """
    try:
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _PRIORITY)
    except PermissionError:
        return False
    return True
