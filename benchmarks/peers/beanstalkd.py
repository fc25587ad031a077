"""Measures beanstalkd over its own protocol (doc/protocol.txt). All commands of a batch go out in one write."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from math import ceil
from pathlib import Path
from typing import ClassVar, Final

from benchmarks.errors import BenchError
from benchmarks.peers import installing
from benchmarks.peers.peer import BATCH, BATCH_CLIENTS, CLIENTS, NotRun, Queue
from bridge.local.ports import free_ports, is_served
from bridge.local.server import Server

_TTR_S: Final = 30
_LONGEST_ID: Final = 24  # the id replaces the first bytes of the body, so the body keeps its length


class _Server(Server):
    title: ClassVar[str] = "beanstalkd"

    def __init__(self, program: Path, folder: Path, fsync: str) -> None:
        super().__init__(folder)
        self._program, self._fsync = program, fsync
        self.port = free_ports(1)[0]

    @property
    def ports(self) -> list[int]:
        return [self.port]

    def command(self) -> list[str]:
        return [str(self._program), "-l", "127.0.0.1", "-p", str(self.port), "-b", str(self.data_dir), self._fsync]

    def is_ready(self) -> bool:
        return is_served(self.port)


class _Connection:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    def write(self, commands: bytes) -> None:
        self._writer.write(commands)

    async def answer(self) -> list[bytes]:
        return (await self._reader.readuntil(b"\r\n")).split()

    async def body(self, length: bytes) -> bytes:
        return (await self._reader.readexactly(int(length) + 2))[:-2]

    def close(self) -> None:
        self._writer.close()


class Beanstalkd(Queue):
    """One server with its binlog. With `fsync` it writes to the disk before each answer; otherwise the kernel does so
    later."""

    whole_seconds = True

    def __init__(self, folder: Path, installed: Path, *, fsync: bool, may_install: bool) -> None:
        self.name = "beanstalkd, fsync" if fsync else "beanstalkd, no fsync"
        self.accepted = (
            "one server has it, and has written its binlog to the disk (-f0)"
            if fsync
            else "one server has it, and the kernel writes it to the disk later (-F)"
        )
        self._folder, self._installed, self._may_install = folder, installed, may_install
        self._fsync = "-f0" if fsync else "-F"
        self._idle: asyncio.Queue[_Connection] = asyncio.Queue()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        program = await installing.beanstalkd(self._installed, may_install=self._may_install)
        folder = self._folder / f"beanstalkd{self._fsync}"
        shutil.rmtree(folder, ignore_errors=True)
        server = _Server(program, folder, self._fsync)
        connections: list[_Connection] = []
        try:
            await asyncio.to_thread(server.start)
            for _ in range(CLIENTS + BATCH_CLIENTS):
                connections.append(_Connection(*await asyncio.open_connection("127.0.0.1", server.port)))
                self._idle.put_nowait(connections[-1])
            yield
        except FileNotFoundError as error:
            raise NotRun(str(error)) from error
        finally:
            for connection in connections:
                connection.close()
            server.kill()

    async def send(self, messages: Sequence[tuple[str, bytes, int]]) -> None:
        commands = []
        for message_id, body, delay_ms in messages:
            job = message_id.encode().ljust(_LONGEST_ID) + body[_LONGEST_ID:]
            commands.append(b"put 0 %d %d %d\r\n%b\r\n" % (ceil(delay_ms / 1_000), _TTR_S, len(job), job))
        async with self._connection() as connection:
            connection.write(b"".join(commands))
            for _ in messages:
                answer = await connection.answer()
                if answer[0] != b"INSERTED":
                    raise BenchError(f"beanstalkd answered a put with {answer}")

    async def take(self) -> list[str]:
        async with self._connection() as connection:
            connection.write(b"reserve-with-timeout 1\r\n" + b"reserve-with-timeout 0\r\n" * (BATCH - 1))
            ids, deletes = [], []
            for _ in range(BATCH):
                answer = await connection.answer()
                if answer[0] == b"RESERVED":
                    ids.append((await connection.body(answer[2]))[:_LONGEST_ID].decode().strip())
                    deletes.append(b"delete %b\r\n" % answer[1])
            connection.write(b"".join(deletes))
            for _ in deletes:
                await connection.answer()
            return ids

    async def versions(self) -> dict[str, str]:
        program = await installing.beanstalkd(self._installed, may_install=False)
        return {"beanstalkd": (await installing.output(str(program), "-v")).split()[-1]}

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[_Connection]:
        connection = await self._idle.get()
        yield connection
        # After an error in the middle of a command, the connection is not used again.
        self._idle.put_nowait(connection)
