"""Runs the HTTP server, and stops it so that clients notice little."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING

import uvicorn

from bridge.http.server.pulse import Pulse

if TYPE_CHECKING:
    from bridge.service.pools.pools import Pools
    from bridge.service.systemd import Reporter


class DrainingServer(uvicorn.Server):
    """An HTTP server that drains before it stops.

    Draining: `/health/ready` answers 503, long polls end, and each answer closes its connection. After `drain_ms`, in
    which a load balancer can take the bridge out, the server stops listening and finishes the requests in flight.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        pools: Pools,
        pulse: Pulse,
        *,
        drain_ms: int,
        lifeline: int | None = None,
        reporter: Reporter | None = None,
    ) -> None:
        """`pulse`: beats while the server runs. `lifeline`: the read end of a pipe. The server stops when the write end
        closes, which happens when the parent process ends. `reporter`: reports when the server answers and when it
        stops."""
        super().__init__(config)
        self._reporter = reporter
        self._pools = pools
        self._pulse = pulse
        self._drain_s = drain_ms / 1_000
        self._lifeline = lifeline

    async def main_loop(self) -> None:
        if self._lifeline is not None:
            asyncio.get_running_loop().add_reader(self._lifeline, self._parent_gone, self._lifeline)
        if self._reporter is not None:
            self._reporter.start()
        self._pulse.start(self.server_state.connections)
        await super().main_loop()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        if self._reporter is not None:
            self._reporter.stopping()
        self._pools.drain()
        for connection in self.server_state.connections:
            if (request := getattr(connection, "cycle", None)) is not None:
                request.keep_alive = False
        self.server_state.default_headers = [*self.server_state.default_headers, (b"connection", b"close")]
        await asyncio.sleep(self._drain_s)
        await super().shutdown(sockets)
        if self._reporter is not None:
            self._reporter.end()

    def _parent_gone(self, lifeline: int) -> None:
        asyncio.get_running_loop().remove_reader(lifeline)
        self.should_exit = True
