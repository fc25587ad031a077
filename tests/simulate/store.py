"""Puts a real Redis behind the simulated network, with the virtual clock.

Each connection has a real one to a private Redis, and each piece of bytes is answered at once, in this thread. So the
scripts are the real ones. A library gives Redis the virtual time (`clock.c`); keys expire when somebody asks for them.
"""

from __future__ import annotations

import mmap
import os
import shutil
import socket
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, cast

import hiredis

from bridge.local.errors import LocalError
from bridge.local.redis import RedisNode
from bridge.store.scripts import SCRIPTS
from tests.simulate.clock import Clock
from tests.simulate.lives import Lives
from tests.simulate.network import Link
from tests.simulate.trace import Trace

COMPILER: Final = shutil.which("cc") or shutil.which("gcc")
NO_COMPILER: Final = "the simulation needs a C compiler for Redis' clock: install gcc"
_SOURCE: Final = Path(__file__).with_name("clock.c")
_NAMES: Final = {script.sha: name for name, script in SCRIPTS.items()}
_SHOWN: Final = 3  # items of an answer, in a trace
_WHOLE: Final = (
    ("REPLICAOF", "NO", "ONE"),
    ("CONFIG", "SET", "maxmemory", "0"),
    ("CONFIG", "SET", "min-replicas-to-write", "0"),
)
"""A simulation that was killed during a fault may have left Redis otherwise (`faults/redis.py`)."""


class PrivateRedis(RedisNode):
    """A Redis without a disk, whose time is the virtual one once a simulation sets it."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.socket_path = folder.resolve() / "redis.sock"
        self._clock_file = folder.resolve() / "clock"
        self._library = folder.resolve() / "clock.so"
        folder.mkdir(parents=True, exist_ok=True)
        self._clock_file.write_bytes(bytes(8))
        if COMPILER is None:
            raise LocalError(NO_COMPILER)
        subprocess.run([COMPILER, "-O2", "-shared", "-fPIC", "-o", self._library, _SOURCE, "-ldl"], check=True)
        with self._clock_file.open("r+b") as file:
            self._time = mmap.mmap(file.fileno(), 8)

    def environment(self) -> dict[str, str]:
        return {**super().environment(), "LD_PRELOAD": str(self._library), "SIMULATED_CLOCK": str(self._clock_file)}

    def configuration(self) -> str:
        lines = (
            "appendonly no",
            f'unixsocket "{self.socket_path}"',
            "enable-debug-command local",
            "activerehashing no",
            "hz 1",
        )
        return super().configuration().replace("appendonly yes", "\n".join(lines))

    def set_time(self, unix_us: int) -> None:
        self._time[:] = struct.pack("q", unix_us)

    def connect(self) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(os.fspath(self.socket_path))
        return connection


class RealConnection:
    """A blocking connection to Redis."""

    def __init__(self, redis: PrivateRedis) -> None:
        self._socket = redis.connect()
        self._reader = hiredis.Reader()

    def ask(self, data: bytes, answers: int) -> tuple[bytes, list[Any]]:
        """Sends commands, and returns the bytes of so many answers, and the answers."""
        self._socket.sendall(data)
        found: list[Any] = []
        raw = b""
        while len(found) < answers:
            piece = self._socket.recv(1 << 20)
            if not piece:
                raise LocalError("the private Redis has closed a connection")
            raw += piece
            self._reader.feed(piece)
            while (answer := self._reader.gets()) is not False:
                found.append(answer)
        return raw, found

    def close(self) -> None:
        self._socket.close()


class SimulatedRedis:
    """Answers the connections of a simulation. `fate`: decides for each piece of commands what happens to them:
    `""`, `lost` before they run, or `answer lost` after it. `ahead_ms`: how far Redis' clock is ahead of the right
    time."""

    def __init__(self, redis: PrivateRedis, clock: Clock, trace: Trace) -> None:
        self._redis = redis
        self._clock = clock
        self._trace = trace
        self._own = RealConnection(redis)
        self._clients: list[RealConnection] = []
        self.fate: Callable[[], str] = str
        self.ahead_ms = 0
        self._latest_us = 0
        self.calls = 0
        for words in _WHOLE:
            self.command(*words)
        self.command("FLUSHALL")
        self.command("SCRIPT", "FLUSH")
        self.command("DEBUG", "SET-ACTIVE-EXPIRE", "0")
        self.lives = Lives(self.command)

    def accept(self, link: Link) -> Client:
        self._clients.append(RealConnection(self._redis))
        return Client(self, link, self._clients[-1])

    def command(self, *words: bytes | str | int) -> Any:
        """Runs one command beside the network.

        Raises:
            hiredis.ReplyError: Redis has refused it.
        """
        self._set_time()
        (answer,) = self._own.ask(hiredis.pack_command(cast(Any, words)), 1)[1]
        if isinstance(answer, hiredis.ReplyError):
            raise answer
        return answer

    def replicate(self) -> None:
        """Copies all keys to a second database, as a replica has them."""
        self.command("SELECT", 1)
        self.command("FLUSHDB")
        self.command("SELECT", 0)
        for key in sorted(self.command("KEYS", "*")):
            self.command("COPY", key, key, "DB", 1)

    def fail_over(self) -> None:
        """Lets the copy take the place of the keys. Scripts are not replicated."""
        self.command("SWAPDB", 0, 1)
        self.command("SCRIPT", "FLUSH")
        self.lives.emptied()

    def empty(self) -> None:
        """Loses all keys and scripts."""
        self.command("FLUSHALL")
        self.command("SCRIPT", "FLUSH")
        self.lives.emptied()

    def expire(self) -> None:
        """Lets all keys expire whose moment Redis' clock has ever passed: Redis may have removed them at that time."""
        self.ahead_ms = max(0, self._latest_us - self._clock.unix_us) // 1_000

    def _set_time(self) -> None:
        now_us = self._clock.unix_us + self.ahead_ms * 1_000
        self._latest_us = max(self._latest_us, now_us)
        self._redis.set_time(now_us)

    def close(self) -> None:
        """Closes all connections to the real Redis."""
        for connection in (self._own, *self._clients):
            connection.close()

    def answer(self, link: Link, real: RealConnection, commands: list[list[bytes]]) -> None:
        """Runs the commands, and sends their answers, unless one of both is lost with the connection."""
        self.calls += len(commands)
        fate = self.fate()
        if fate == "lost":
            self._trace.note(link.name, f"lost before it ran: {_shown(commands[0])}")
            link.cut(loses=True)
            return
        self._set_time()
        raw = b""
        for words in commands:
            piece, answer = self._asked(real, words)
            raw += piece
            shown = "…" if words[0] == b"INFO" else _brief(answer)  # the server's memory differs
            self._trace.note(link.name, f"{_shown(words)} -> {shown}{' LOST' if fate else ''}")
        if fate:
            link.cut(loses=True)
        else:
            link.send(raw)

    def _asked(self, real: RealConnection, words: list[bytes]) -> tuple[bytes, Any]:
        """Runs a command, between two looks at its records. Returns the bytes of its answer, and the answer."""
        command = hiredis.pack_command(cast(Any, tuple(words)))
        if not (looking := self.lives.look(words)):
            raw, (answer,) = real.ask(command, 1)
            return raw, answer
        look = hiredis.pack_command(cast(Any, looking))
        raw, (before, answer, after) = real.ask(look + command + look, 3)
        self.lives.called(words, before, after)
        return raw[_size(before) : len(raw) - _size(after)], answer


class Client:
    """One connection of a simulation."""

    def __init__(self, redis: SimulatedRedis, link: Link, real: RealConnection) -> None:
        self._redis = redis
        self._link = link
        self._real = real
        self._data = b""

    def received(self, data: bytes) -> None:
        """Answers as soon as the bytes end with a whole command."""
        self._data += data
        if (commands := _whole(self._data)) is not None:
            self._data = b""
            self._redis.answer(self._link, self._real, commands)

    def lost(self) -> None:
        self._real.close()


def _size(text: bytes) -> int:
    """Returns how many bytes the answer with this text has."""
    return len(b"$%d\r\n%b\r\n" % (len(text), text))


def _whole(data: bytes) -> list[list[bytes]] | None:
    """Returns the commands that the bytes are; None: the last one is not whole yet."""
    commands: list[list[bytes]] = []
    at = 0
    while at < len(data):
        count, at = _number(data, at)
        words: list[bytes] = []
        for _ in range(count):
            size, at = _number(data, at)
            words.append(data[at : at + size])
            at += size + 2
        if not count or at > len(data):
            return None
        commands.append(words)
    return commands


def _number(data: bytes, at: int) -> tuple[int, int]:
    """Reads `*3` or `$5` and its line's end. Returns the number and where the next item begins; 0 and a place behind
    the data if the line is not whole."""
    end = data.find(b"\r\n", at)
    return (int(data[at + 1 : end]), end + 2) if end >= 0 else (0, len(data) + 1)


def _shown(words: list[bytes]) -> str:
    name = words[0].decode()
    if name == "EVALSHA":
        return f"{_NAMES.get(words[1].decode(), '?')} {words[3].decode(errors='replace')}"
    return " ".join(word.decode(errors="replace")[:40] for word in words[:_SHOWN])


def _brief(answer: Any) -> str:
    if isinstance(answer, list):
        return "[" + ", ".join(map(_brief, answer[:_SHOWN])) + (", …]" if len(answer) > _SHOWN else "]")
    if isinstance(answer, dict):
        return f"{len(answer)} fields"
    return repr(answer)[:60]
