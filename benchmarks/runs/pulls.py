"""Measures pulls over HTTP: messages taken one at a time, and how late the messages of a steady rate are."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from datetime import datetime
from random import uniform
from time import monotonic, time
from typing import Any, Final

import orjson

from benchmarks import client, loops
from benchmarks.bench import Bench
from benchmarks.bodies import BODY
from benchmarks.client import CREATED, Api
from benchmarks.errors import BenchError
from benchmarks.figures import curve, percentiles

SAYS = (
    "`64 connections`, `4 connections`: each pulls one message and acknowledges it, again and again. `acks along`: "
    "each pull acknowledges an earlier message, as our clients' consumers do. The messages are ready before. The "
    "figure is acknowledged messages a second. `late`: an open loop sends 500 messages a second with random delays of "
    "1-5 s. Four consumers pull up to 10 messages at a time, wait for the first and acknowledge all in one request. "
    "Lateness is the moment when a consumer has the message, minus its `due_at`."
)
CONNECTIONS: Final = (64, 4)
_BATCH: Final = 100
_CONSUMERS: Final = 4
_LIMIT: Final = 10
_SENDERS: Final = 32
_LEAST_MS: Final = 1_000
_PATIENCE_S: Final = 30.0
_LOOK_S: Final = 0.05
How = Callable[[Api, str, list[str]], Awaitable[int]]
"""Takes one message. The list has the receipts of messages that are taken and not acknowledged."""


async def run(bench: Bench) -> None:
    for connections in CONNECTIONS:
        for how, ending in ((_by_two_calls, ""), (_by_one_call, " acks along")):
            name = f"pulls {connections} connections{ending}"
            with bench.attempt(name):
                await bench.stack.fresh()
                await _one_at_a_time(bench, connections, name, how)
    with bench.attempt("pulls late"):
        await bench.stack.fresh()
        await _lateness(bench)


async def _one_at_a_time(bench: Bench, connections: int, name: str, how: How) -> None:
    topic = bench.topic(name.replace(" ", "-"))
    async with client.opened(bench.stack.http_url, connections=connections) as api:
        for _ in range(bench.size.pulled // _BATCH):
            await api.send_batch(topic, [{"body": BODY}] * _BATCH)
        left = bench.size.pulled // _BATCH * _BATCH
        receipts: list[str] = []

        async def take() -> int:
            nonlocal left
            if not left:
                return 0
            acked = await how(api, topic, receipts)
            left -= acked
            return acked

        await loops.closed_loop(connections, bench.size.warm_s / 2, take)
        before, before_left, began_s = bench.stack.cpu_s(), left, time()

        async def until_empty() -> int:
            if not left:
                raise BenchError(f"{bench.size.pulled} messages are too few for {bench.size.pulls_s} s")
            return await take()

        await loops.closed_loop(connections, bench.size.pulls_s, until_empty)
        done = before_left - left
        bench.add(name, done / (time() - began_s), "messages/s")
        bench.add_cpu(name, before, done)


async def _by_two_calls(api: Api, topic: str, _: list[str]) -> int:
    return len((await _take(api, topic, 1))[0])


async def _by_one_call(api: Api, topic: str, receipts: list[str]) -> int:
    """Acknowledges a message of `receipts`, and pulls another one, whose receipt it adds. Returns how many it
    acknowledged."""
    ack = [receipts.pop()] if receipts else []
    pulled = await api.ask(f"/v1/topics/{topic}/pull", {"wait": "500ms", "lease": "30s", "ack": ack})
    if any(one["result"] != "acked" for one in pulled["acked"]):
        raise BenchError(f"a pull was answered {pulled}")
    receipts += [message["receipt"] for message in pulled["messages"]]
    return len(pulled["acked"])


async def _lateness(bench: Bench) -> None:
    size = bench.size
    topic = bench.topic("pulls-late")
    count = int(size.rate_per_s * size.lateness_s)
    late_ms: dict[str, float] = {}
    twice = 0
    accepted: set[str] = set()

    async def send(at: int) -> None:
        delay_ms = int(uniform(_LEAST_MS, size.longest_ms))
        body = {"id": str(at), "body": BODY, "delay": delay_ms}
        answer = await api.post(f"/v1/topics/{topic}/messages", orjson.dumps(body))
        if answer.status == CREATED:
            accepted.add(str(at))

    async def consume() -> None:
        nonlocal twice
        while True:
            messages, came_ms = await _take(api, topic, _LIMIT)
            for message in messages:
                twice += message["id"] in late_ms
                late_ms[message["id"]] = came_ms - datetime.fromisoformat(message["due_at"]).timestamp() * 1_000

    async with client.opened(bench.stack.http_url, connections=_SENDERS + _CONSUMERS) as api, _consuming(consume):
        await _warm_up(bench, api, topic, late_ms)
        before = bench.stack.cpu_s()
        await loops.open_loop(count, size.rate_per_s, send)
        await _until_seen(bench, accepted, late_ms)
        bench.add_cpu("pulls late", before, count)
    figures = [late_ms[one] for one in accepted]
    for which, value_ms in percentiles(figures).items():
        bench.add(f"pulls late {which}", value_ms, "ms")
    bench.add("pulls late early", sum(late < 0 for late in figures), "messages")
    bench.add("pulls late twice", twice, "messages")
    bench.add_series("lateness", "% of messages", "ms late", {"pulls late": curve(figures)})


async def _warm_up(bench: Bench, api: Api, topic: str, seen: dict[str, float]) -> None:
    """Passes a message through every slot that the delays need."""
    ids = [f"warm-{ms}" for ms in range(0, bench.size.longest_ms + 1, 100)]
    await api.send_batch(topic, [{"id": one, "body": 0, "delay": int(one[5:])} for one in ids])
    await _until_seen(bench, ids, seen)
    seen.clear()


async def _until_seen(bench: Bench, ids: Collection[str], seen: Mapping[str, float]) -> None:
    give_up_s = monotonic() + bench.size.longest_ms / 1_000 + _PATIENCE_S
    while missing := set(ids) - seen.keys():
        if monotonic() > give_up_s:
            raise BenchError(f"{len(missing)} of {len(ids)} messages did not come")
        await asyncio.sleep(_LOOK_S)


@asynccontextmanager
async def _consuming(consume: Callable[[], Awaitable[None]]) -> AsyncIterator[None]:
    async with loops.together() as group:
        tasks = [group.create_task(_as_task(consume)) for _ in range(_CONSUMERS)]
        yield
        await loops.end(tasks)


async def _take(api: Api, topic: str, limit: int) -> tuple[list[dict[str, Any]], float]:
    """Pulls and acknowledges. Returns the messages, and the moment when they came, in Unix ms."""
    pulled = await api.ask(f"/v1/topics/{topic}/pull", {"max": limit, "wait": "1s", "lease": "30s"})
    came_ms, messages = time() * 1_000, pulled["messages"]
    if messages:
        receipts = [message["receipt"] for message in messages]
        done = await api.ask(f"/v1/topics/{topic}/ack", {"receipts": receipts})
        if any(one["result"] != "acked" for one in done["results"]):
            raise BenchError(f"an ack was answered {done}")
    return messages, came_ms


async def _as_task(consume: Callable[[], Awaitable[None]]) -> None:
    await consume()
