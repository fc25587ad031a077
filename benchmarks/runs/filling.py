"""Fills one topic with many messages quickly."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from time import monotonic

from benchmarks import client, loops
from benchmarks.errors import BenchError

_TRIES = 20
_BATCH = 1_000
_CONNECTIONS = 4


async def fill(
    http_url: str, topic: str, count: int, message: Callable[[], dict[str, object]], *, first: int = 0
) -> float:
    """Sends `count` messages made by `message`, in batches of 1000 over four connections. Returns the duration in
    seconds.

    Messages that are not accepted are sent again with the same id. Ids count from `first`, and are as long as those of
    the bridge.

    Raises:
        BenchError: messages were refused `_TRIES` times.
    """
    started_s = monotonic()
    messages = ({"id": f"{at:026}", **message()} for at in range(first, first + count))

    async def send(api: client.Api) -> None:
        while batch := list(islice(messages, _BATCH)):
            for _ in range(_TRIES):
                batch = await api.offer_batch(topic, batch)
                if not batch:
                    break
            else:
                raise BenchError(f"{len(batch)} messages to {topic} were refused {_TRIES} times")

    async with client.opened(http_url, connections=_CONNECTIONS) as api, loops.together() as group:
        for _ in range(_CONNECTIONS):
            group.create_task(send(api))
    return monotonic() - started_s
