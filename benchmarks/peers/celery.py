"""Measures Celery's native delayed delivery: 28 quorum queues on RabbitMQ, one for each bit of a delay in seconds."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import ClassVar

from benchmarks.peers import installing
from benchmarks.peers.peer import Load, NotRun
from benchmarks.peers.program import ProgramPeer
from bridge.local.server import Server

_PROGRAM = Path(__file__).parent / "programs" / "celery_load.py"


class _Worker(Server):
    title: ClassVar[str] = "Celery"

    def __init__(self, python: Path, folder: Path, environment: dict[str, str]) -> None:
        super().__init__(folder)
        self._python, self._environment = python, environment
        self._ready_file = Path(environment["BENCH_READY"])

    @property
    def ports(self) -> list[int]:
        return []

    def environment(self) -> dict[str, str]:
        return self._environment

    def command(self) -> list[str]:
        worker = ["worker", "--concurrency=2", "--loglevel=WARNING"]
        quiet = ["--without-gossip", "--without-mingle", "--without-heartbeat"]
        return [str(self._python), "-m", "celery", "-A", _PROGRAM.stem, *worker, *quiet]

    def is_ready(self) -> bool:
        return self._ready_file.exists()


class Celery(ProgramPeer):
    """A worker with two processes that acknowledges late, and a producer with 64 threads."""

    name = "celery"
    accepted = "a quorum queue has confirmed it on the disk"
    whole_seconds = True

    def __init__(
        self, folder: Path, installed: Path, broker: Callable[[], Awaitable[str]], *, may_install: bool
    ) -> None:
        """`broker` returns the URL of an empty virtual host."""
        self._folder, self._installed, self._broker, self._may_install = (
            folder / "celery",
            installed,
            broker,
            may_install,
        )
        self._python = Path()
        self._environment: dict[str, str] = {}

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        if not self._may_install:
            raise NotRun("--peers was not given")
        self._python = await installing.celery(self._installed)
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir(parents=True)
        self._environment = {
            **os.environ,
            "PYTHONPATH": str(_PROGRAM.parent),
            "PYTHONDONTWRITEBYTECODE": "1",
            "BENCH_AMQP_URL": await self._broker(),
            "BENCH_ARRIVALS": str(self._folder / "arrivals"),
            "BENCH_READY": str(self._folder / "ready"),
        }
        worker = _Worker(self._python, self._folder, self._environment)
        try:
            await asyncio.to_thread(worker.start)
            yield
        finally:
            worker.kill()

    def command(self) -> list[str]:
        return [str(self._python), str(_PROGRAM)]

    def environment(self) -> dict[str, str]:
        return self._environment

    async def batches(self, load: Load) -> float:
        raise NotRun("Celery sends one task at a time")

    async def versions(self) -> dict[str, str]:
        program = "import celery, kombu; print(celery.__version__, kombu.__version__)"
        celery, kombu = (await installing.output(str(self._python), "-c", program)).split()
        return {"celery": celery, "kombu": kombu}
