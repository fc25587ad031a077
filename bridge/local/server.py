"""Starts, watches, freezes and stops a server program, which never outlives this process."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import ClassVar, Protocol, Self

from bridge.local.errors import LocalError, NotStarted, require_program
from bridge.local.installation import HERE, Installation
from bridge.local.ports import is_free

POLL_SECONDS = 0.05
_STOP_POLL_SECONDS = 0.001

# The kernel sends the parent-death signal when the *thread* that started the child ends. So one thread, which lives as
# long as this process, starts every child.
_spawner = ThreadPoolExecutor(max_workers=1, thread_name_prefix="spawner")


def spawn(command: Sequence[str], environment: Mapping[str, str], log_file: Path) -> subprocess.Popen[bytes]:
    """Starts and returns a child process that dies with this process. The child has its own session, so a terminal
    sends it no Ctrl-C.

    setpriv sets the parent-death signal and then becomes the command, so the child's pid is the command's. `preexec_fn`
    would be unsafe in a process with threads.
    """
    setpriv = require_program("setpriv", "util-linux")
    log_file.parent.mkdir(parents=True, exist_ok=True)
    with log_file.open("ab") as log:
        return _spawner.submit(
            subprocess.Popen,
            [setpriv, "--pdeathsig", "KILL", "--", *command],
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        ).result()


def _all_stopped(pid: int) -> bool:
    """Returns whether every thread of the process is stopped or has ended."""
    try:
        stats = [stat.read_text() for stat in Path(f"/proc/{pid}/task").glob("*/stat")]
    except OSError:  # a thread has ended since the listing
        return False
    return all(stat.rpartition(")")[2].split()[0] in "TZX" for stat in stats)


class Child(Protocol):
    """The part of `Popen` through which a server watches its process."""

    @property
    def pid(self) -> int: ...
    @property
    def returncode(self) -> int | None: ...
    def poll(self) -> int | None: ...
    def wait(self, timeout: float | None = None) -> int: ...


class Startable(ABC):
    """One server or several. A `with` block starts them, and stops them at its end."""

    @abstractmethod
    def start(self) -> None: ...

    @abstractmethod
    def stop(self) -> None: ...

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


class Server(Startable):
    """A server program with a data folder. All calls are synchronous; a stopped server can be started again."""

    title: ClassVar[str]
    start_timeout_seconds: float = 90.0
    stop_timeout_seconds: ClassVar[float] = 30.0

    def __init__(self, data_dir: Path, installation: Installation = HERE) -> None:
        self.data_dir = data_dir.resolve()
        self.installation = installation
        self._process: Child | None = None

    @abstractmethod
    def command(self) -> list[str]:
        """Returns the command line of the program. May also write files that the program reads at its start."""

    @property
    @abstractmethod
    def ports(self) -> list[int]:
        """The loopback ports the server listens on."""

    @abstractmethod
    def is_ready(self) -> bool:
        """Whether the server answers its clients now."""

    def environment(self) -> dict[str, str]:
        """Returns all environment variables of the server's process."""
        return dict(os.environ)

    @property
    def log_file(self) -> Path:
        """The file for the program's output."""
        return self.data_dir / "log" / f"{self.title.lower()}.out"

    @property
    def running(self) -> bool:
        """Whether the process exists. A frozen process counts as running."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """The server's process id. Raises LocalError if the server does not run."""
        if self._process is None or self._process.poll() is not None:
            raise LocalError(f"{self.title} is not running")
        return self.installation.pid(self._process.pid)

    def start(self) -> None:
        """Starts the server and waits until it answers. Does nothing if the server runs already. Raises LocalError if
        it does not start."""
        if self.running:
            return
        self.launch()
        try:
            self.wait_until_ready()
        except BaseException:
            self.kill()
            raise

    def launch(self) -> None:
        """Starts the process and does not wait until it answers. Raises LocalError if another program has one of the
        server's ports."""
        # Otherwise another program's server would answer in place of ours.
        if taken := [port for port in self.ports if not is_free(port)]:
            raise LocalError(f"{self.title} can't start: another program listens on port {taken[0]}; stop it first")
        self.data_dir.mkdir(parents=True, exist_ok=True)
        self._process = self.begin()

    def begin(self) -> Child:
        """Starts the process, and checks no ports. `launch` calls it."""
        return spawn(self.command(), self.environment(), self.log_file)

    def wait_until_ready(self) -> None:
        """Waits until the launched server answers. Raises NotStarted if the server ended before, or took longer than
        `start_timeout_seconds`."""
        give_up_at = time.monotonic() + self.start_timeout_seconds
        while not self.is_ready():
            if not self.running:
                code = self._process.returncode if self._process else None
                raise self._not_started(f"{self.title} ended with code {code} while starting")
            if time.monotonic() > give_up_at:
                raise self._not_started(f"{self.title} gave no answer in {self.start_timeout_seconds:.0f} s")
            time.sleep(POLL_SECONDS)

    def stop(self) -> None:
        """Stops the server gracefully, and kills it if it has not ended after `stop_timeout_seconds`."""
        self.ask_to_stop()
        self.wait_until_stopped()

    def ask_to_stop(self) -> None:
        """Sends SIGTERM to the server and does not wait for its end. Thaws a frozen server."""
        if self._process is not None and self.running:
            self.thaw()
            os.kill(self.pid, signal.SIGTERM)

    def wait_until_stopped(self) -> None:
        """Waits for the end of a server after `ask_to_stop`, and kills it after `stop_timeout_seconds`."""
        if self._process is not None and self.running:
            try:
                self._process.wait(self.stop_timeout_seconds)
            except subprocess.TimeoutExpired:
                self.kill()

    def kill(self) -> None:
        """Sends SIGKILL to the server and its children, and returns when the server has ended."""
        if self._process is None or not self.running:
            return
        # The server may be a child of the launched process. Then only a pidfd shows when it has ended.
        server = os.pidfd_open(self.pid)
        try:
            signal.pidfd_send_signal(server, signal.SIGKILL)
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            ended = select.poll()  # `select` takes no descriptor above 1,023
            ended.register(server)
            ended.poll()
        finally:
            os.close(server)

    def freeze(self) -> None:
        """Suspends the server (SIGSTOP): its connections stay open, and it does not answer.

        One thread receives the signal and stops the other threads, which may answer calls until then on a busy machine.
        So this method returns only when every thread has stopped.
        """
        pid = self.pid
        os.kill(pid, signal.SIGSTOP)
        while not _all_stopped(pid):
            time.sleep(_STOP_POLL_SECONDS)

    def thaw(self) -> None:
        """Resumes a frozen server (SIGCONT)."""
        os.kill(self.pid, signal.SIGCONT)

    def _not_started(self, says: str, lines: int = 15) -> NotStarted:
        written = self.log_file.read_text(errors="replace").splitlines() if self.log_file.exists() else []
        return NotStarted(says, self.log_file, written[-lines:])
