"""Runs a process that has imported what several others need, and forks one of these for each caller of its socket."""

from __future__ import annotations

import os
import select
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

PROJECT: Final = Path(__file__).parent.parent


@contextmanager
def forking(module: str, file: Path, *arguments: str) -> Iterator[IO[bytes]]:
    """Starts `python -m module parent FILE`, and ends it with the context. Yields its standard output: it writes a line
    as soon as it listens on the socket `file`. The modules that it compiles are kept."""
    file.parent.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", module, "parent", str(file), *arguments]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    with subprocess.Popen(
        command, cwd=PROJECT, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as parent:
        assert parent.stdout is not None
        yield parent.stdout
        parent.kill()


def fork_for_callers(file: Path, become: Callable[[socket.socket], object]) -> None:
    """Listens on the socket `file` until standard input is closed. Each caller gets a child, which calls `become` with
    the connection, and ends."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(file))
        listener.listen()
        print("ready", flush=True)
        while listener in select.select([listener, sys.stdin], [], [])[0]:
            caller, _ = listener.accept()
            if os.fork() == 0:
                listener.close()
                become(caller)
                sys.exit()
            caller.close()
