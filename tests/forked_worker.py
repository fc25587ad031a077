"""Starts the workers of a whole test run without their imports: forks them from a process that has collected the tests.

The modules of all tests would take each of the workers 3 s of CPU. A worker still collects the tests, from modules that
are there already. It is a process of its own, as xdist expects.

xdist starts `python -m tests.forked_worker worker SOCKET` in place of Python. This program passes its standard input
and output to the worker that the parent forks for it, and lives as long as the worker.
"""

from __future__ import annotations

import os
import shlex
import socket
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Final

from tests.forking import fork_for_callers

_STANDARD: Final = (0, 1)  # what execnet speaks over


def specification(file: Path) -> str:
    """Returns how xdist starts a worker that the parent at `file` forks, in words of execnet."""
    # Without `site`: this program needs the standard library alone.
    return f"popen//python={shlex.join([sys.executable, '-S', '-m', 'tests.forked_worker', 'worker', str(file)])}"


def _be_parent(file: Path, arguments: list[str]) -> None:
    import pytest  # noqa: PLC0415 - the other role does without it

    with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere):
        pytest.main([*arguments, "-n0", "--collect-only", "-q", "--no-header", "--no-summary"])
    fork_for_callers(file, _become_worker)


def _become_worker(caller: socket.socket) -> None:
    """Does what Python does with the `-c` of execnet. `caller` stays open as long as this process lives."""
    _, given, _, _ = socket.recv_fds(caller, 1, len(_STANDARD))
    for file, standard in zip(given, _STANDARD, strict=True):
        os.dup2(file, standard)
        os.close(file)
    exec(eval(sys.stdin.readline()), sys.modules["__main__"].__dict__)


def _ask_for_worker(file: Path) -> None:
    with socket.socket(socket.AF_UNIX) as asking:
        asking.connect(str(file))
        socket.send_fds(asking, [b"\0"], _STANDARD)
        for standard in _STANDARD:  # else the run would not see that the worker has died
            os.close(standard)
        asking.recv(1)


if __name__ == "__main__":
    _, role, path, *rest = sys.argv
    if role == "parent":
        _be_parent(Path(path), rest)
    else:
        _ask_for_worker(Path(path))
