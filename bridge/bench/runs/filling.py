"""Many messages into one topic, quickly."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from itertools import islice
from time import monotonic

from bridge.bench import client

_BATCH = 1_000
_CONNECTIONS = 4


async def fill(http_url: str, topic: str, count: int, message: Callable[[], object]) -> float:
    """Sends `count` messages that `message` makes, in batches of 1000 over four connections.

    Returns: how many seconds it took.

    Raises:
        BenchError: one was not accepted.
    """
    started_s = monotonic()
    messages = (message() for _ in range(count))

    async def send(api: client.Api, left: Iterator[object]) -> None:
        while batch := list(islice(left, _BATCH)):
            await api.send_batch(topic, batch)

    async with client.opened(http_url, connections=_CONNECTIONS) as api:
        await asyncio.gather(*(send(api, messages) for _ in range(_CONNECTIONS)))
    return monotonic() - started_s
