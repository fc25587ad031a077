"""The HTTP server, which ends so that clients notice little of it."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING

import uvicorn

if TYPE_CHECKING:
    from bridge.service.pools import Pools


class Server(uvicorn.Server):
    """Told to stop, it first says that it is not ready, answers long polls, and has each answer end its connection;
    after `drain_ms`, in which a balancer can turn away from it, it listens no more and ends what is under way."""

    def __init__(self, config: uvicorn.Config, pools: Pools, *, drain_ms: int, lifeline: int | None = None) -> None:
        """`lifeline`: a pipe's end at which nothing comes; once its other end is gone the server stops."""
        super().__init__(config)
        self._pools = pools
        self._drain_s = drain_ms / 1_000
        self._lifeline = lifeline

    async def main_loop(self) -> None:
        if self._lifeline is not None:
            asyncio.get_running_loop().add_reader(self._lifeline, self._cut_off, self._lifeline)
        await super().main_loop()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._pools.drain()
        for connection in self.server_state.connections:
            if (under_way := getattr(connection, "cycle", None)) is not None:
                under_way.keep_alive = False
        self.server_state.default_headers = [*self.server_state.default_headers, (b"connection", b"close")]
        await asyncio.sleep(self._drain_s)
        await super().shutdown(sockets)

    def _cut_off(self, lifeline: int) -> None:
        asyncio.get_running_loop().remove_reader(lifeline)
        self.should_exit = True
