"""Measures BullMQ, which keeps jobs as hashes in Redis, and delayed jobs in a sorted set that workers watch."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import orjson

from benchmarks.peers import installing
from benchmarks.peers.peer import NotRun
from benchmarks.peers.program import ProgramPeer
from benchmarks.peers.zset import SAYS
from bridge.local.redis import AppendFsync, RedisNode

_PROGRAM = Path(__file__).parent / "programs" / "bullmq_load.mjs"


class BullMq(ProgramPeer):
    """One Node process with a queue, and with a worker of concurrency 100 for the loads that take messages."""

    def __init__(self, folder: Path, installed: Path, appendfsync: AppendFsync, *, may_install: bool) -> None:
        self.name = f"bullmq, {appendfsync}"
        self.accepted = SAYS[appendfsync]
        self._installed, self._may_install = installed, may_install
        self._home = Path()
        self._node = RedisNode(folder / f"bullmq-{appendfsync}", appendfsync=appendfsync)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        if not self._may_install:
            raise NotRun("--peers was not given")
        self._home = await installing.bullmq(self._installed)
        try:
            await asyncio.to_thread(self._node.start)
            yield
        finally:
            self._node.kill()

    def command(self) -> list[str]:
        return ["node", str(_PROGRAM)]

    def given(self) -> dict[str, Any]:
        return {"port": self._node.port, "modules": f"{self._home}/"}

    async def versions(self) -> dict[str, str]:
        about = orjson.loads((self._home / "node_modules" / "bullmq" / "package.json").read_bytes())
        return {"bullmq": about["version"], "node": (await installing.output("node", "--version")).removeprefix("v")}
