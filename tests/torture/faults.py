"""Carries out the plan's faults, one after the other."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence

from tests.torture.plan import Fault, Kind
from tests.torture.stage import Stage

LATENCY_S = 0.05
SETTLE_S = 2.0


class Faults:
    """Does the faults of a plan. `counts` holds how many faults of each kind were done."""

    def __init__(self, stage: Stage, faults: Sequence[Fault], said: Callable[[str], None]) -> None:
        self._stage = stage
        self._faults = faults
        self._said = said
        self.counts: Counter[Kind] = Counter(dict.fromkeys(Kind, 0))

    async def run(self) -> None:
        """Returns when the last fault has passed and every server answers again.

        Raises:
            LocalError: a server does not come back, or has ended by itself.
        """
        loop = asyncio.get_running_loop()
        start_s = loop.time()
        for fault in self._faults:
            await asyncio.sleep(start_s + fault.at_s - loop.time())
            at_s = loop.time() - start_s
            self.counts[fault.kind] += 1
            await self._do(fault)
            await self._stage.until_ready()
            took_s = loop.time() - start_s - at_s
            self._said(f"{at_s:6.1f} s  {fault.kind} {fault.target}, all ready again after {took_s:.1f} s")
            await asyncio.sleep(SETTLE_S)

    async def _do(self, fault: Fault) -> None:
        server, proxy = self._stage.servers[fault.target], self._stage.proxies[fault.target]
        match fault.kind:
            case Kind.KILL | Kind.TERMINATE:
                await asyncio.to_thread(server.kill if fault.kind is Kind.KILL else server.stop)
                await asyncio.sleep(fault.duration_s)
                await asyncio.to_thread(server.start)
            case Kind.FREEZE:
                server.freeze()
                try:
                    await asyncio.sleep(fault.duration_s)
                finally:
                    server.thaw()
            case Kind.CUT:
                proxy.cut()
                await asyncio.sleep(fault.duration_s)
                proxy.mend()
            case Kind.SLOW:
                proxy.latency_s = LATENCY_S
                await asyncio.sleep(fault.duration_s)
                proxy.latency_s = 0.0
