"""Runs several bridge processes in one event loop: each starts, answers HTTP requests, dies, and is started again."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextvars import Context, copy_context
from typing import Any, Final

from bridge.cli.assembly import assemble
from bridge.http.app import create_app
from bridge.model.errors import BrokerUnfit, StoreUnfit
from bridge.service.pools.pools import Pools
from bridge.settings.reading import read
from tests.simulate.exchange import Exchange
from tests.simulate.loop import PROCESS, SimulatedLoop
from tests.simulate.network import Network
from tests.simulate.trace import Trace

_AGAIN_S: Final = 1.0  # after a start that failed, as a supervisor waits
_REFUSED: Final = (BrokerUnfit, StoreUnfit)


class BridgeProcess:
    """One life of a bridge: from its start to its death. `serves`: whether it answers requests."""

    def __init__(self, number: int, loop: SimulatedLoop, settings: Mapping[str, Any]) -> None:
        self.number = number
        self.context: Context = copy_context()
        self.context.run(PROCESS.set, number)
        self.serves = False
        self.is_dead = False
        self.exchanges: dict[int, Exchange] = {}
        self._loop = loop
        self._settings = settings
        self._app: Any = None
        self._pools: Pools | None = None

    def start(self) -> asyncio.Task[None]:
        """Starts the process, as `delaybridge serve` does."""
        return self._loop.create_task(self._start(), context=self.context)

    async def _start(self) -> None:
        self._pools = assemble(read(**self._settings))
        self._app = create_app(self._pools)
        await self._pools.start()
        self.serves = True

    def begin(self, exchange: Exchange) -> None:
        """Answers a request."""
        self.exchanges[exchange.number] = exchange
        task = self._loop.create_task(exchange.run(self._app), context=self.context.copy())
        task.add_done_callback(lambda _: self.exchanges.pop(exchange.number, None))

    def stop(self) -> asyncio.Task[None]:
        """Ends the process, as after SIGTERM."""
        return self._loop.create_task(self._stop(), context=self.context)

    async def _stop(self) -> None:
        assert self._pools is not None
        self._pools.drain()
        await asyncio.sleep(0.5)
        self.serves = False
        await self._pools.stop()


class Processes:
    """The bridges. Each has a place, where a new process follows a dead one."""

    def __init__(self, network: Network, trace: Trace, settings: Mapping[str, Any], places: int) -> None:
        self._loop = network.loop
        self._network = network
        self._trace = trace
        self._settings = settings
        self._started = 0
        self.places = [self._new() for _ in range(places)]
        self.findings: list[str] = []
        self._starting: set[asyncio.Task[None]] = set()

    def _new(self) -> BridgeProcess:
        self._started += 1
        return BridgeProcess(self._started, self._loop, self._settings)

    async def start(self, place: int) -> None:
        """Starts the process of a place, and again if it refuses a server."""
        while True:
            process = self.places[place]
            self._trace.note(f"bridge {process.number}", "starts")
            try:
                await process.start()
                self._trace.note(f"bridge {process.number}", "serves")
            except _REFUSED as error:
                self.findings.append(f"a bridge refused to start: {error}")
                self.end(place)
                await asyncio.sleep(_AGAIN_S)
                continue
            return

    def end(self, place: int) -> None:
        """Kills the process, and puts a new one in its place, which does not run yet."""
        process = self.places[place]
        self._trace.note(f"bridge {process.number}", "dies")
        process.serves = False
        process.is_dead = True
        self._loop.kill(process.number)
        self._network.died(process.number)
        for exchange in [*process.exchanges.values()]:
            self._loop.call_later(self._network.latency_s(), exchange.lose, context=self._network.context)
        self.places[place] = self._new()

    def begin(self, place: int) -> None:
        """Starts the process of the place, and does not wait until it serves."""
        task = self._loop.create_task(self.start(place), context=self._network.context.copy())
        self._starting.add(task)
        task.add_done_callback(self._starting.discard)
