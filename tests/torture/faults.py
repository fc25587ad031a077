"""Carries out the plan's faults, one after the other."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence

from redis.asyncio import Redis

from tests.history import History
from tests.torture.partitions import Cluster
from tests.torture.parts import ShimmedServer
from tests.torture.plan import Fault, Kind
from tests.torture.servers import TormentedRabbit, TormentedRedis, starve
from tests.torture.stage import Stage

LATENCY_S = 0.05
SYNC_MS = 100
SETTLE_S = 2.0


class Faults:
    """Does the faults of a plan. `counts` holds how many faults of each kind were done."""

    def __init__(self, stage: Stage, faults: Sequence[Fault], history: History, said: Callable[[str], None]) -> None:
        """Notes the steps of clocks in the history."""
        self._stage = stage
        self._history = history
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
            name = f"{at_s:6.1f} s  {fault.kind}{' one way' if fault.one_way else ''} {fault.target}"
            if missing := self._stage.parts[fault.target].lacks(fault.kind):
                self._said(f"{name}: skipped, {missing}")
                continue
            self.counts[fault.kind] += 1
            await self._do(fault)
            await self._stage.until_ready()
            took_s = loop.time() - start_s - at_s
            self._said(f"{name}, all ready again after {took_s:.1f} s")
            await asyncio.sleep(SETTLE_S)

    async def _do(self, fault: Fault) -> None:
        match fault.kind:
            case Kind.KILL | Kind.TERMINATE | Kind.FREEZE | Kind.STARVE:
                await self._disturb_process(fault)
            case Kind.CUT | Kind.SLOW:
                await self._disturb_network(fault)
            case Kind.CLOCK:
                self._set_clock(fault, fault.clock_ms)
                try:
                    await asyncio.sleep(fault.duration_s)
                finally:
                    self._set_clock(fault, 0)
            case Kind.PARTITION:
                cluster = self._stage.parts[fault.target]
                assert isinstance(cluster, Cluster)  # no other set-up has partitions
                await cluster.partition(fault.duration_s, one_way=fault.one_way)
            case Kind.SLOW_DISK | Kind.FULL_DISK:
                await self._disturb_disk(fault)
            case Kind.EMPTY:
                self._history.emptying()
                async with Redis.from_url(self._stage.parts[fault.target].url) as redis:
                    await redis.flushall()
                self._history.emptying()

    async def _disturb_process(self, fault: Fault) -> None:
        part = self._stage.parts[fault.target]
        server = part.hit
        match fault.kind:
            case Kind.FREEZE:
                server.freeze()
                try:
                    await asyncio.sleep(fault.duration_s)
                finally:
                    server.thaw()
            case Kind.STARVE:
                await starve(server, fault.duration_s)
            case _:
                await asyncio.to_thread(server.kill if fault.kind is Kind.KILL else server.stop)
                await asyncio.sleep(max(fault.duration_s, part.least_away_s))
                await asyncio.to_thread(server.start)

    async def _disturb_network(self, fault: Fault) -> None:
        proxy = self._stage.parts[fault.target].proxy
        if fault.kind is Kind.CUT:
            proxy.cut()
            await asyncio.sleep(fault.duration_s)
            proxy.mend()
        else:
            proxy.latency_s = LATENCY_S
            await asyncio.sleep(fault.duration_s)
            proxy.latency_s = 0.0

    async def _disturb_disk(self, fault: Fault) -> None:
        disk = self._disk(fault)
        if fault.kind is Kind.SLOW_DISK:
            disk.shim.set(sync_ms=SYNC_MS)
            await asyncio.sleep(fault.duration_s)
            disk.shim.set()
            return
        await asyncio.to_thread(disk.fill)
        await asyncio.sleep(fault.duration_s)
        await asyncio.to_thread(disk.clear)

    def _set_clock(self, fault: Fault, ahead_ms: int) -> None:
        # Noted first when the clock leaves the true time, and last when it is right again.
        if ahead_ms:
            self._history.clock(ahead_ms)
        self._disk(fault).shim.set(ahead_ms=ahead_ms)
        if not ahead_ms:
            self._history.clock(0)

    def _disk(self, fault: Fault) -> TormentedRabbit | TormentedRedis:
        part = self._stage.parts[fault.target]
        assert isinstance(part, ShimmedServer)  # the others lack these faults
        return part.disk
