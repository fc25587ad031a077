"""Calls the bridges' HTTP API, each time at any of the bridges, as `tests.torture.api.Api` does over sockets."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import count
from random import Random
from typing import Any, Final, cast

import httpx2

from tests.simulate.exchange import Exchange
from tests.simulate.network import Network
from tests.simulate.processes import BridgeProcess, Processes
from tests.simulate.trace import Trace
from tests.torture.api import Api

_TIMEOUT_S: Final = 20.0
_IMPATIENT: Final = (-4.0, -1.0)  # powers of ten of a second: so a call may end at each of its steps
_PAUSE_S: Final = (0.3, 1.2)
_REQUEST: Final = httpx2.Request("GET", "http://127.0.0.1:8080")  # a response needs one; to read URLs takes time


class SimulatedApi(Api):
    """`fate`: decides for each call what happens to it: `""`, `lost` before it runs, `answer lost`, or `impatient`."""

    def __init__(self, processes: Processes, network: Network, trace: Trace, random: Random) -> None:
        super().__init__(cast(httpx2.AsyncClient, None), (), random, _PAUSE_S)
        self._processes = processes
        self._network = network
        self._trace = trace
        self._numbers = count(1)
        self.fate: Callable[[], str] = str
        self.calls = 0
        self.findings: list[str] = []

    async def call(self, method: str, path: str, json: Any = None) -> httpx2.Response | None:
        process = self._random.choice(self._processes.places)
        exchange = Exchange(next(self._numbers), method, path, json, world=self._network.context)
        who = f"call {exchange.number} to {process.number}"
        fate = self.fate()
        self.calls += 1
        self._trace.note(who, f"{method} {path} {json}{f' ({fate})' if fate else ''}")
        await asyncio.sleep(self._network.latency_s())
        answer = None
        if process.serves and fate != "lost":
            process.begin(exchange)
            answer = await self._answer(exchange, process, impatient=fate == "impatient")
            await asyncio.sleep(self._network.latency_s())
        if exchange.error is not None:
            self.findings.append(f"{method} {path} raised {exchange.error!r}")
        if answer is None or fate == "answer lost":
            self._trace.note(who, "no answer")
            return None
        status, body = answer
        self._trace.note(who, f"{status} {body[:200].decode(errors='replace')}")
        return httpx2.Response(status, content=body, request=_REQUEST)

    async def _answer(self, exchange: Exchange, process: BridgeProcess, *, impatient: bool) -> tuple[int, bytes] | None:
        limit_s = 10 ** self._random.uniform(*_IMPATIENT) if impatient else _TIMEOUT_S
        try:
            async with asyncio.timeout(limit_s):
                return await exchange.answered
        except TimeoutError:
            self._network.loop.call_soon(exchange.disconnect, context=process.context)
            return None
