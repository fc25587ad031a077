"""One server program: started, watched, frozen and ended by this process, and never outliving it."""

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
from typing import ClassVar, Self

from bridge.local.errors import LocalError, require_program
from bridge.local.installation import HERE, Installation
from bridge.local.ports import is_free

POLL_SECONDS = 0.05

# The kernel sends a parent-death signal when the *thread* that started the child ends, so every
# child is started from one thread that lives as long as this process.
_spawner = ThreadPoolExecutor(max_workers=1, thread_name_prefix="spawner")


def spawn(command: Sequence[str], environment: Mapping[str, str], log_file: Path) -> subprocess.Popen[bytes]:
    """Starts a child in a session of its own (no Ctrl-C from the terminal) that dies with this process.

    setpriv sets the parent-death signal and then becomes the command, so the child's pid is the
    command's. It is used in place of `preexec_fn`, which is unsafe in a process with threads.
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


class Server(ABC):
    """A server program with a data folder. All calls are synchronous; a stopped server can be started again."""

    title: ClassVar[str]
    start_timeout_seconds: ClassVar[float] = 90.0
    stop_timeout_seconds: ClassVar[float] = 30.0

    def __init__(self, data_dir: Path, installation: Installation = HERE) -> None:
        self.data_dir = data_dir.resolve()
        self.installation = installation
        self._process: subprocess.Popen[bytes] | None = None

    @abstractmethod
    def command(self) -> list[str]:
        """The command line, one argument an item. It may also write what the program reads at start."""

    @property
    @abstractmethod
    def ports(self) -> list[int]:
        """The loopback ports the server listens on."""

    @abstractmethod
    def is_ready(self) -> bool:
        """Whether the server answers its clients now."""

    def environment(self) -> dict[str, str]:
        """The child's whole environment."""
        return dict(os.environ)

    @property
    def log_file(self) -> Path:
        """Where what the program prints goes."""
        return self.data_dir / "log" / f"{self.title.lower()}.out"

    @property
    def running(self) -> bool:
        """Whether the process lives (a frozen one does)."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """The server's process id; LocalError when it does not run."""
        if self._process is None or self._process.poll() is not None:
            raise LocalError(f"{self.title} is not running")
        return self.installation.pid(self._process.pid)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Starts the server and waits until it answers; does nothing when it runs. LocalError when it fails."""
        if self.running:
            return
        self.launch()
        try:
            self.wait_until_ready()
        except BaseException:
            self.kill()
            raise

    def launch(self) -> None:
        """Starts the process without waiting for it to answer. LocalError when one of its ports is taken."""
        # A server of somebody else would answer in place of ours.
        if taken := [port for port in self.ports if not is_free(port)]:
            raise LocalError(f"{self.title} cannot start: port {taken[0]} is taken by another program")
        self.data_dir.mkdir(parents=True, exist_ok=True)
        self._process = spawn(self.command(), self.environment(), self.log_file)

    def wait_until_ready(self) -> None:
        """Waits until the launched server answers; LocalError when it ends before or takes too long."""
        give_up_at = time.monotonic() + self.start_timeout_seconds
        while not self.is_ready():
            if not self.running:
                code = self._process.returncode if self._process else None
                raise LocalError(f"{self.title} ended with code {code} while starting{self._last_words()}")
            if time.monotonic() > give_up_at:
                raise LocalError(
                    f"{self.title} gave no answer in {self.start_timeout_seconds:.0f} s{self._last_words()}"
                )
            time.sleep(POLL_SECONDS)

    def stop(self) -> None:
        """Ends the server gracefully, and by force when it has not ended after `stop_timeout_seconds`."""
        self.ask_to_stop()
        self.wait_until_stopped()

    def ask_to_stop(self) -> None:
        """Tells the server to end (SIGTERM) without waiting for it; a frozen one is thawed."""
        if self._process is not None and self.running:
            self.thaw()
            os.kill(self.pid, signal.SIGTERM)

    def wait_until_stopped(self) -> None:
        """Waits for a server that was told to end, `stop_timeout_seconds` at most, then kills it."""
        if self._process is not None and self.running:
            try:
                self._process.wait(self.stop_timeout_seconds)
            except subprocess.TimeoutExpired:
                self.kill()

    def kill(self) -> None:
        """SIGKILL to the server and all it started; returns when it is gone."""
        if self._process is None or not self.running:
            return
        # The server may be a child of what was launched, and then only the kernel can say when it is gone.
        server = os.pidfd_open(self.pid)
        try:
            signal.pidfd_send_signal(server, signal.SIGKILL)
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            select.select([server], [], [])
        finally:
            os.close(server)

    def freeze(self) -> None:
        """Stops the server from running (SIGSTOP): its connections stay open and nobody answers."""
        os.kill(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """Lets a frozen server go on (SIGCONT)."""
        os.kill(self.pid, signal.SIGCONT)

    def _last_words(self, lines: int = 15) -> str:
        if not self.log_file.exists():
            return ""
        tail = self.log_file.read_text(errors="replace").splitlines()[-lines:]
        return f"; the end of {self.log_file}:\n" + "\n".join(tail)
