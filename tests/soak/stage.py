"""Runs the servers of a soak: one RabbitMQ, one Redis, and one bridge that forgets ended messages within seconds."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import orjson

from benchmarks.log_faults import faults_in
from bridge.local.bridge import BridgeProcess
from bridge.local.errors import LocalError
from bridge.local.ports import free_ports
from bridge.local.rabbitmq import RabbitNode
from bridge.local.redis import RedisNode
from tests.forked_bridge import PATIENT
from tests.soak.inside import FILE
from tests.torture.stage import emptied
from tests.waiting import pause

SETTINGS: Final = {
    **PATIENT,
    # A copy that a busy machine delays by more than this would find no record, and be a message again.
    "BRIDGE_RETENTION": "5s",
    "BRIDGE_TOMBSTONE_RETENTION": "5s",
    "BRIDGE_AUDIT_EVERY": "5s",  # so that it also runs in a short first round
    "BRIDGE_VERIFY_EVERY": "10s",
    "BRIDGE_PUSH_ALLOW": "http://127.0.0.1",
    "BRIDGE_LMSTFY_SKIP_VERIFICATION": "true",
}

_ANSWER_S: Final = 30.0


class LookedInto(BridgeProcess):
    """A bridge that shows what its process holds."""

    def command(self) -> list[str]:
        return [sys.executable, "-m", "tests.soak.inside", "serve"]

    def environment(self) -> dict[str, str]:
        return {**super().environment(), FILE: str(self._shown)}

    async def inside(self) -> dict[str, dict[str, int]]:
        """Returns what `look_inside` finds in the process now.

        Raises:
            LocalError: the process does not answer.
        """
        self._shown.unlink(missing_ok=True)
        os.kill(self.pid, signal.SIGUSR1)
        try:
            async with asyncio.timeout(_ANSWER_S):
                while not self._shown.exists():
                    await pause()
        except TimeoutError:
            raise LocalError(f"the bridge did not show what its process holds: see {self.log_file}") from None
        found: dict[str, dict[str, int]] = orjson.loads(self._shown.read_bytes())
        return found

    def errors(self) -> list[str]:
        """The faults that it logged."""
        return [str(fault) for fault in faults_in(self.log_file)]

    @property
    def _shown(self) -> Path:
        return self.log_file.with_name("inside.json")


@dataclass(frozen=True, slots=True)
class Stage:
    rabbit: RabbitNode
    redis: RedisNode
    bridge: LookedInto


@asynccontextmanager
async def running(folder: Path) -> AsyncIterator[Stage]:
    """Empties the folder and starts the servers in it. Their logs stay there.

    Raises:
        LocalError: another run uses the folder, or a server did not start.
    """
    with emptied(folder):
        rabbit, redis = RabbitNode(folder / "rabbitmq"), RedisNode(folder / "redis", appendfsync="everysec")
        servers = {"BRIDGE_AMQP_URL": rabbit.amqp_url, "BRIDGE_REDIS_URL": redis.url}
        bridge = LookedInto(folder / "log" / "bridge.log", free_ports(1)[0], {**servers, **SETTINGS})
        try:
            await asyncio.gather(*(asyncio.to_thread(server.start) for server in (rabbit, redis)))
            await asyncio.to_thread(bridge.start)
            yield Stage(rabbit, redis, bridge)
        finally:
            for server in (bridge, redis, rabbit):
                await asyncio.to_thread(server.kill)
