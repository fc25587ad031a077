"""Calls the bridges' HTTP API, each time at any of the bridges."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import httpx2

CONNECTIONS = 256
_CONNECT_TIMEOUT_S, _ANSWER_TIMEOUT_S = 3, 20  # longer than a freeze, so that few calls time out
PAUSE_S = (0.3, 1.2)  # clients that retry sooner would be a load themselves


class Api:
    def __init__(
        self, http: httpx2.AsyncClient, urls: Sequence[str], random: Random, pause_s: tuple[float, float] = PAUSE_S
    ) -> None:
        """`pause_s`: the shortest and the longest pause between two tries."""
        self._http = http
        self._urls = urls
        self._random = random
        self._pause_s = pause_s

    async def call(self, method: str, path: str, json: Any = None) -> httpx2.Response | None:
        """Tries once. Returns None without an answer: then the bridge may have done the call, or may do it later."""
        try:
            return await self._http.request(method, f"{self._random.choice(self._urls)}{path}", json=json)
        except httpx2.TransportError:
            return None

    async def insist(self, method: str, path: str, json: Any = None) -> httpx2.Response:
        """Tries until an answer is below 500."""
        while True:
            response = await self.call(method, path, json)
            if response is not None and response.status_code < 500:
                return response
            await self.pause()

    async def pause(self) -> None:
        """Waits between two tries."""
        await asyncio.sleep(self._random.uniform(*self._pause_s))


@asynccontextmanager
async def opened(
    urls: Sequence[str], seed: int, *, connections: int = CONNECTIONS, pause_s: tuple[float, float] = PAUSE_S
) -> AsyncIterator[Api]:
    limits = httpx2.Limits(max_connections=connections, max_keepalive_connections=connections)
    timeout = httpx2.Timeout(_ANSWER_TIMEOUT_S, connect=_CONNECT_TIMEOUT_S, pool=None)
    async with httpx2.AsyncClient(limits=limits, timeout=timeout) as http:
        yield Api(http, urls, Random(seed), pause_s)
