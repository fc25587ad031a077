"""Starts the workers of a whole test run without their imports: forks them from a process that has collected the tests.

The modules of all tests would take each of the workers 3 s of CPU. A worker still collects the tests, from modules that
are there already. It is a process of its own, as xdist expects.

xdist starts `python -m tests.forked_worker worker SOCKET` in place of Python. This program passes its standard input
and output to the worker that the parent forks for it, and lives as long as the worker.
"""

from __future__ import annotations

import os
import select
import shlex
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NoReturn

PROJECT: Final = Path(__file__).parent.parent
_STANDARD: Final = (0, 1)  # what execnet speaks over


@contextmanager
def forking(file: Path, arguments: Sequence[str]) -> Iterator[subprocess.Popen[bytes]]:
    """Starts the parent of workers. It collects the tests and then listens on the socket `file`; it ends with the
    context. `arguments`: those of the run. Modules that it compiles are kept."""
    file.parent.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "tests.forked_worker", "parent", str(file), *arguments]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    with subprocess.Popen(
        command, cwd=PROJECT, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as parent:
        yield parent
        parent.kill()


def specification(file: Path) -> str:
    """Returns how xdist starts a worker that the parent at `file` forks, in words of execnet."""
    # Without `site`: this program needs the standard library alone.
    return f"popen//python={shlex.join([sys.executable, '-S', '-m', 'tests.forked_worker', 'worker', str(file)])}"


def _be_parent(file: Path, arguments: Sequence[str]) -> None:
    """Forks a worker for each caller until standard input is closed. It writes a line as soon as it is ready."""
    import pytest  # noqa: PLC0415 - the other role does without it

    said = os.dup(1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    pytest.main([*arguments, "-n0", "--collect-only", "-q"])
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(file))
        listener.listen()
        os.write(said, b"ready\n")
        os.close(said)
        while listener in select.select([listener, sys.stdin], [], [])[0]:
            caller, _ = listener.accept()
            if os.fork() == 0:
                listener.close()
                _become_worker(caller)
            caller.close()


def _become_worker(caller: socket.socket) -> NoReturn:
    """Does what Python does with the `-c` of execnet. `caller` stays open as long as this process lives."""
    _, given, _, _ = socket.recv_fds(caller, 1, len(_STANDARD))
    for file, standard in zip(given, _STANDARD, strict=True):
        os.dup2(file, standard)
        os.close(file)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115 - the parent's is at its end
    exec(eval(sys.stdin.readline()), sys.modules["__main__"].__dict__)
    sys.exit()


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
