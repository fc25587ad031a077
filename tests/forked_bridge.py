"""Starts bridges without their imports: forks them from a process that has imported the package.

A bridge of a test is the whole program, with a process, an environment and a log of its own. Its imports alone would
take 1 s of CPU at each start. The tests of `bridge.local` start the program without this.

Each pytest worker has a parent of its bridges. In a whole run, one process imports the package and forks these parents.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import json
import os
import select
import signal
import socket
import subprocess
import sys
import traceback
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from pathlib import Path
from time import sleep
from typing import Any, NoReturn

from bridge.local.bridge import BridgeProcess
from tests.forking import fork_for_callers

PROJECT = Path(__file__).parent.parent

# A busy machine may take seconds for an answer. Tests of time limits set their own, or keep the defaults.
PATIENCE = {"broker_timeout": "10s", "store_timeout": "10s"}
PATIENT = {f"BRIDGE_{name.upper()}": limit for name, limit in PATIENCE.items()}
SHARED = "DELAYBRIDGE_TESTS_FORK_BRIDGES_AT"
"""The environment variable with the socket of the process that forks the parents of a whole run."""

BUSY_S = 2.5
"""How long SIGUSR1 keeps the event loop of a bridge busy: longer than a call may last."""

_PR_SET_PDEATHSIG = 1


AT_ONCE = {"BRIDGE_BACKOFF_FIRST": "0"}
"""A failed message is ready again at once, where neither a test nor a topic sets a back-off."""


class ForkedBridge(BridgeProcess):
    """One `delaybridge serve`, forked from this pytest worker's parent of bridges."""

    def environment(self) -> dict[str, str]:
        return AT_ONCE | super().environment()

    @property
    def exit_code(self) -> int | None:
        """The exit code, negative for a signal; None while it runs."""
        return None if self._process is None else self._process.poll()

    @property
    def worker_pids(self) -> list[int]:
        """The process ids of its workers, in the order of their forks; empty if it is one process."""
        return [int(pid) for pid in Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()]

    def begin(self) -> _Fork:
        self.log_file.parent.mkdir(parents=True, exist_ok=True)
        parent = _parent()
        return _Fork(parent, parent.ask({"environment": self.environment(), "log": str(self.log_file)}))


class _Fork:
    """A forked bridge, with the methods of Popen that a server needs."""

    def __init__(self, parent: _Parent, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._parent = parent

    def poll(self) -> int | None:
        if self.returncode is None:
            self.returncode = self._parent.ask({"exit_code_of": self.pid})
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.poll() is None:
            # It stays a zombie until its parent is asked for the exit code, so no other process has its id.
            ended = os.pidfd_open(self.pid)
            try:
                select.select([ended], [], [], timeout)
            finally:
                os.close(ended)
        code = self.poll()
        if code is None:
            raise subprocess.TimeoutExpired("delaybridge serve", timeout or 0.0)
        return code


class _Parent:
    """The process that forks this worker's bridges. It ends with the worker, and they end with it."""

    def __init__(self) -> None:
        with _connection() as connection:
            self._asking_it = connection.makefile("rwb")
        # One thread asks and reads. So a test that reaches its time limit meanwhile leaves no answer for the next one.
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="parent-of-bridges")
        atexit.register(self._asking_it.close)

    def ask(self, request: Mapping[str, object]) -> Any:
        return self._thread.submit(self._ask, request).result()

    def _ask(self, request: Mapping[str, object]) -> Any:
        self._asking_it.write(json.dumps(request).encode() + b"\n")
        self._asking_it.flush()
        return json.loads(self._asking_it.readline())


def _connection() -> socket.socket:
    """Starts this worker's parent of bridges, and returns a connection to it. It ends when the connection is closed."""
    if SHARED in os.environ:
        ours = socket.socket(socket.AF_UNIX)
        ours.connect(os.environ[SHARED])
        return ours
    ours, its = socket.socketpair()
    with its:
        process = subprocess.Popen([sys.executable, "-m", "tests.forked_bridge"], cwd=PROJECT, stdin=its.fileno())
    atexit.register(process.wait)
    return ours


@cache
def _parent() -> _Parent:
    return _Parent()


def import_bridge() -> Any:
    """Imports what a bridge needs, and returns the program."""
    gc.disable()
    from bridge.cli import serve  # noqa: F401, PLC0415 - a pytest worker needs it only in this process
    from bridge.cli.app import app  # noqa: PLC0415
    from bridge.model.tls import system_context  # noqa: PLC0415

    system_context()
    gc.freeze()
    return app


def fork_bridges(app: Any) -> None:
    """Forks bridges and tells their exit codes, until the connection that is standard input is closed."""
    # Two threads of a test may ask for one bridge. The system tells an exit code only once.
    codes: dict[int, int] = {}
    for line in open(0, "rb", closefd=False):  # noqa: SIM115 - a bridge has another one
        request = json.loads(line)
        if "exit_code_of" in request:
            pid = request["exit_code_of"]
            if pid not in codes:
                ended, status = os.waitpid(pid, os.WNOHANG)
                if ended:
                    codes[pid] = os.waitstatus_to_exitcode(status)
            answer = codes.get(pid)
        else:
            answer = os.fork()
            if answer == 0:
                _become(app, request["environment"], request["log"])
            codes.pop(answer, None)
        os.write(0, json.dumps(answer).encode() + b"\n")


def _become(app: Any, environment: Mapping[str, str], log_file: str) -> NoReturn:
    """Runs `delaybridge serve` to its end and exits the process."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    os.setsid()
    log, nothing = os.open(log_file, os.O_WRONLY | os.O_CREAT | os.O_APPEND), os.open(os.devnull, os.O_RDONLY)
    for file, standard in ((nothing, 0), (log, 1), (log, 2)):
        os.dup2(file, standard)
    os.environ.clear()
    os.environ.update(environment)
    gc.enable()
    signal.signal(signal.SIGUSR1, lambda *_: sleep(BUSY_S))
    code: object = 1
    try:
        app(["serve"])
    except SystemExit as ended:
        code = ended.code
    except BaseException:  # noqa: BLE001 - a bridge must not continue with the parent's code
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code if isinstance(code, int) else 0 if code is None else 1)


def _be_parent(app: Any, caller: socket.socket) -> None:
    os.dup2(caller.fileno(), 0)  # where `_become` closes it
    caller.close()
    fork_bridges(app)


if __name__ == "__main__":
    program = import_bridge()
    if len(sys.argv) > 1:
        fork_for_callers(Path(sys.argv[-1]), partial(_be_parent, program))
    else:
        fork_bridges(program)
