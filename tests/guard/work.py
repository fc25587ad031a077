"""Does the work that is measured over HTTP: single sends, sends in batches, and whole cycles."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import Final

import orjson

from benchmarks.client import CREATED, Api
from benchmarks.errors import BenchError
from benchmarks.loops import together

CONNECTIONS: Final = 32
_SINGLES, _BATCHES, _CYCLE = 300, 15, 600  # messages, batches, messages: a fraction of a second each
_SENDERS, _CONSUMERS = 4, 4
_BATCH: Final = 100
_LONG: Final = "90m"  # no message is due before the measurement ends
_SHORT_MS: Final = 200


async def single_sends(api: Api, topic: str) -> int:
    """Sends one message in each request. Each kind of work returns its number of messages."""
    await _sent(api, topic, _SINGLES)
    return _SINGLES


async def batches(api: Api, topic: str) -> int:
    messages = [{"body": {"order": number}, "delay": _LONG} for number in range(_BATCH)]

    async def send(left: Iterator[int]) -> None:
        for _ in left:
            await api.send_batch(topic, messages)

    await _spread(_SENDERS, _BATCHES, send)
    return _BATCHES * _BATCH


async def cycles(api: Api, topic: str) -> int:
    """Sends in batches, and pulls and acks the messages as they become due."""
    acked = 0
    messages = [{"body": {"order": number}, "delay": _SHORT_MS} for number in range(_BATCH)]

    async def send(left: Iterator[int]) -> None:
        for _ in left:
            await api.send_batch(topic, messages)

    async def consume() -> None:
        nonlocal acked
        while acked < _CYCLE:
            pulled = await api.ask(f"/v1/topics/{topic}/pull", {"max": _BATCH, "wait": "200ms", "lease": "1h"})
            if receipts := [message["receipt"] for message in pulled["messages"]]:
                done = await api.ask(f"/v1/topics/{topic}/ack", {"receipts": receipts})
                acked += sum(one["result"] == "acked" for one in done["results"])

    async with together() as group:
        group.create_task(_spread(_SENDERS, _CYCLE // _BATCH, send))
        for _ in range(_CONSUMERS):
            group.create_task(consume())
    return _CYCLE


WORKS: Final = {"a single send": single_sends, "a send in a batch of 100": batches, "a cycle of 100 at once": cycles}


async def _sent(api: Api, topic: str, count: int) -> None:
    path = f"/v1/topics/{topic}/messages"

    async def send(left: Iterator[int]) -> None:
        for number in left:
            answer = await api.post(path, orjson.dumps({"body": {"order": number}, "delay": _LONG}))
            if answer.status != CREATED:
                raise BenchError(f"a send was answered {answer.status}: {answer.body[:300]!r}")

    await _spread(CONNECTIONS, count, send)


async def _spread(clients: int, count: int, client: Callable[[Iterator[int]], Awaitable[None]]) -> None:
    left = iter(range(count))
    async with together() as group:
        for _ in range(clients):
            group.create_task(_of(client, left))


async def _of(client: Callable[[Iterator[int]], Awaitable[None]], left: Iterator[int]) -> None:
    await client(left)
