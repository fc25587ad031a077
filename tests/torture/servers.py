"""Runs servers that can be disturbed from the inside: their clock, their disk, their share of the CPU."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from time import monotonic

from bridge.local.bridge import BridgeProcess
from bridge.local.rabbitmq import RabbitNode
from bridge.local.server import Server
from tests.small_disk import SmallDisk
from tests.torture.shim import Shim

# A starved machine starts a server in minutes.
START_TIMEOUT_S = 300.0
_STOPPED_S, _RUNNING_S = 0.08, 0.02


class TormentedRedis(SmallDisk):
    start_timeout_seconds: float = START_TIMEOUT_S

    def __init__(self, data_dir: Path, shim: Shim) -> None:
        super().__init__(data_dir, appendfsync="always")
        self.shim = shim

    def environment(self) -> dict[str, str]:
        return {**super().environment(), **self.shim.environment}

    def clear(self) -> None:
        """Starts Redis again: it exits when a write fails."""
        self.kill()
        self.start()


class TormentedRabbit(RabbitNode):
    start_timeout_seconds: float = START_TIMEOUT_S

    def __init__(self, data_dir: Path, shim: Shim) -> None:
        super().__init__(data_dir)
        self.shim = shim

    def environment(self) -> dict[str, str]:
        return {**super().environment(), **self.shim.environment}

    def fill(self) -> None:
        """Makes RabbitMQ consider its disk full: it blocks publishers."""
        self.ctl("set_disk_free_limit", "1000000000000000")

    def clear(self) -> None:
        """Ends the alarm."""
        self.ctl("set_disk_free_limit", "50000000")


class TormentedBridge(BridgeProcess):
    """A bridge. A freeze suspends its workers too."""

    start_timeout_seconds: float = START_TIMEOUT_S

    def freeze(self) -> None:
        os.killpg(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        os.killpg(self.pid, signal.SIGCONT)


async def starve(server: Server, seconds: float) -> None:
    """Leaves the server a fifth of the time, in short pulses."""
    until_s = monotonic() + seconds
    while monotonic() < until_s and server.running:
        server.freeze()
        try:
            await asyncio.sleep(_STOPPED_S)
        finally:
            server.thaw()
        await asyncio.sleep(_RUNNING_S)
