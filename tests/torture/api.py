"""The bridges' HTTP API, for clients that take any bridge for every call."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import httpx2

_CONNECTIONS = 256
_CONNECT_TIMEOUT_S, _ANSWER_TIMEOUT_S = 3, 20  # longer than a bridge is frozen, so few answers are missed by time-out
_PAUSE_S = (0.3, 1.2)  # more impatient clients would be a load of their own


class Api:
    def __init__(self, http: httpx2.AsyncClient, urls: Sequence[str], random: Random) -> None:
        self._http = http
        self._urls = urls
        self._random = random

    async def call(self, method: str, path: str, json: Any = None) -> httpx2.Response | None:
        """One try; None when there was no answer, so that it may have been done or be done yet."""
        try:
            return await self._http.request(method, f"{self._random.choice(self._urls)}{path}", json=json)
        except httpx2.TransportError:
            return None

    async def insist(self, method: str, path: str, json: Any = None) -> httpx2.Response:
        """Tries until there is an answer that promises something."""
        while True:
            response = await self.call(method, path, json)
            if response is not None and response.status_code < 500:
                return response
            await self.pause()

    async def pause(self) -> None:
        """Between two tries."""
        await asyncio.sleep(self._random.uniform(*_PAUSE_S))


@asynccontextmanager
async def opened(urls: Sequence[str], seed: int) -> AsyncIterator[Api]:
    limits = httpx2.Limits(max_connections=_CONNECTIONS, max_keepalive_connections=_CONNECTIONS)
    timeout = httpx2.Timeout(_ANSWER_TIMEOUT_S, connect=_CONNECT_TIMEOUT_S, pool=None)
    async with httpx2.AsyncClient(limits=limits, timeout=timeout) as http:
        yield Api(http, urls, Random(seed))
