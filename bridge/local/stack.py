"""Runs Redis, RabbitMQ and the bridge for `make run`, and restarts them, until Ctrl-C."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from bridge.local.bridge import BridgeProcess
from bridge.local.errors import LocalError, NotStarted
from bridge.local.ports import free_ports, is_free, kept_ports
from bridge.local.rabbitmq import RabbitNode
from bridge.local.redis import RedisNode
from bridge.local.running import data_dir
from bridge.local.server import Server
from bridge.local.welcome import welcome
from bridge.settings.amqp_urls import without_password

WATCH_SECONDS = 0.2
RESTART_PAUSE_SECONDS = 0.5


@dataclass(frozen=True, kw_only=True)
class StackSettings:
    """The settings of `make run`. With `amqp_url` or `redis_url`, the stack uses that server and does not start its
    own."""

    http_port: int = 8080  # 0: any free one
    amqp_url: str | None = None
    redis_url: str | None = None
    data_dir: Path = Path(".local")

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Self:
        """Returns the settings in BRIDGE_HTTP_PORT, BRIDGE_AMQP_URL, BRIDGE_REDIS_URL and BRIDGE_LOCAL_DIR. A variable
        that is unset or empty gives its setting's default.

        Raises:
            LocalError: BRIDGE_HTTP_PORT is not a whole number from 0 to 65535.
        """
        return cls(
            http_port=_port(environment, "BRIDGE_HTTP_PORT", 8080),
            amqp_url=environment.get("BRIDGE_AMQP_URL") or None,
            redis_url=environment.get("BRIDGE_REDIS_URL") or None,
            data_dir=data_dir(environment),
        )


def _port(environment: Mapping[str, str], name: str, default: int) -> int:
    text = environment.get(name) or str(default)
    if not text.isdecimal() or int(text) > 65_535:
        raise LocalError(f"{name} is {text!r}; it must be a whole number from 0 to 65535")
    return int(text)


class Stack:
    """The servers of `make run`. They start in the order Redis, RabbitMQ, bridge, and stop in the reverse order."""

    def __init__(self, settings: StackSettings) -> None:
        data = settings.data_dir
        self.run_file = data / "run.json"
        ports = kept_ports(data / "ports.json", ("amqp", "management", "redis"))
        self.rabbitmq = (
            None
            if settings.amqp_url
            else RabbitNode(data / "rabbitmq", ports["amqp"], management_port=ports["management"])
        )
        self.redis = None if settings.redis_url else RedisNode(data / "redis", ports["redis"])
        self.amqp_url = settings.amqp_url or (self.rabbitmq.amqp_url if self.rabbitmq else "")
        self.redis_url = settings.redis_url or (self.redis.url if self.redis else "")
        self.management_url = self.rabbitmq.management_url if self.rabbitmq else None
        http_port = settings.http_port or free_ports(1)[0]
        addresses = {"BRIDGE_AMQP_URL": self.amqp_url, "BRIDGE_REDIS_URL": self.redis_url}
        if self.management_url:
            addresses["BRIDGE_MANAGEMENT_URL"] = self.management_url
        self.bridge = BridgeProcess(data / "logs" / "bridge.log", http_port, addresses)
        self.http_url = self.bridge.url
        if not is_free(http_port):
            raise LocalError(f"Port {http_port} is in use. Choose another one: BRIDGE_HTTP_PORT=8081 make run")

    @property
    def stores(self) -> list[Server]:
        """The Redis and RabbitMQ servers that the stack runs itself."""
        return [server for server in (self.redis, self.rabbitmq) if server is not None]

    def start(self) -> None:
        """Starts all servers and waits until each answers. Raises LocalError if one does not."""
        for group in (self.stores, [self.bridge]):
            for server in group:
                with self._in_one_line(server):
                    server.launch()
            for server in group:
                with self._in_one_line(server):
                    server.wait_until_ready()
        self.write_run_file()

    @contextmanager
    def _in_one_line(self, server: Server) -> Iterator[None]:
        """Turns NotStarted into a LocalError of one line: why the server does not start, what to do, its log file."""
        try:
            yield
        except NotStarted as error:
            raise LocalError(f"{error.reason}. {self._remedy(server)} (log: {error.log_file})") from error

    def _remedy(self, server: Server) -> str:
        if server is self.bridge:
            return "Correct its settings"
        setting = "BRIDGE_AMQP_URL" if server is self.rabbitmq else "BRIDGE_REDIS_URL"
        return f"Set BRIDGE_LOCAL_DIR to an empty folder, or {setting} to a {server.title} that runs"

    def watch(self) -> None:
        """Restarts every server that ends. Runs until an exception is raised."""
        while True:
            time.sleep(WATCH_SECONDS)
            self.revive()

    def revive(self) -> None:
        """Restarts servers that have ended, with the same ports and data. Does not wait until they answer."""
        ended = [server for server in [*self.stores, self.bridge] if not server.running]
        if not ended:
            return
        time.sleep(RESTART_PAUSE_SECONDS)
        for server in ended:
            _say(f"{server.title} ended; restarting it.")
            try:
                server.launch()
            except LocalError as error:
                _say(str(error))
        self.write_run_file()

    def stop(self) -> None:
        """Stops the bridge, which finishes its work in flight, then the RabbitMQ and Redis that the stack started.
        Deletes the run file."""
        self.run_file.unlink(missing_ok=True)
        self.bridge.stop()
        for store in reversed(self.stores):
            store.stop()

    def welcome(self) -> str:
        """Returns the text for the terminal once all servers run."""
        logs = self.bridge.log_file.parent
        amqp_url = self.amqp_url if self.rabbitmq else without_password(self.amqp_url)
        return welcome(self.http_url, amqp_url=amqp_url, management_url=self.management_url, logs=logs)

    def write_run_file(self) -> None:
        """Writes URLs and process ids to `run.json`, for other programs. Replaces the file as a whole, so nobody reads
        half of it."""
        content = {
            "http": self.http_url,
            "amqp": self.amqp_url,
            "redis": self.redis_url,
            "management": self.management_url and self.management_url.replace("guest:guest@", ""),
            "pids": {
                "rabbitmq": _pid(self.rabbitmq),
                "redis": _pid(self.redis),
                "bridge": [self.bridge.pid] if self.bridge.running else [],
            },
        }
        draft = self.run_file.with_suffix(".tmp")
        draft.touch(mode=0o600)
        draft.write_text(json.dumps(content, indent=2) + "\n")
        draft.replace(self.run_file)


def run(settings: StackSettings) -> None:
    """Starts the stack and keeps it running until SIGINT, SIGTERM or SIGHUP. Raises LocalError if it can't start."""
    with _named(settings.data_dir):
        _run(settings)


def _run(settings: StackSettings) -> None:
    settings.data_dir.mkdir(parents=True, exist_ok=True)
    with _only_one(settings.data_dir / "run.lock"):
        stack = Stack(settings)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, _interrupt)
        try:
            _say("Starting …")
            stack.start()
            _say(stack.welcome())
            stack.watch()
        except KeyboardInterrupt:
            _say("\nStopping …")
        finally:
            # A terminal and make may both send the same Ctrl-C. The second signal must not interrupt the stop.
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, signal.SIG_IGN)
            stack.stop()


def _interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt


@contextmanager
def _named(folder: Path) -> Iterator[None]:
    """Turns an OSError into a LocalError that names the file or folder that can't be written, and the remedy."""
    try:
        yield
    except OSError as error:
        raise LocalError(
            f"can't write {Path(error.filename or folder).absolute()}: {error.strerror or error}. Correct that, or set "
            "BRIDGE_LOCAL_DIR to a folder that this user can write"
        ) from error


@contextmanager
def _only_one(lock_file: Path) -> Iterator[None]:
    """Locks the data folder: two stacks on one folder would destroy each other's data."""
    with lock_file.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise LocalError(
                f"A stack already runs on {lock_file.parent}. Stop it first, or set BRIDGE_LOCAL_DIR to another folder."
            ) from error
        yield


def _pid(server: Server | None) -> int | None:
    return server.pid if server is not None and server.running else None


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()
