"""Measures many topics: how fast they are made, what they cost while nobody uses them, and a lost connection."""

from __future__ import annotations

import asyncio
from random import randrange
from time import monotonic
from typing import Final

import orjson

from benchmarks import client, loops
from benchmarks.bench import Bench
from benchmarks.bodies import BODY
from benchmarks.client import CREATED, Api

SAYS = (
    "1,000 topics, each made by its first send, over 64 connections. `made` is topics a second. `idle cpu` is CPU "
    "time a second while nobody calls, and `memory` is how much RabbitMQ has grown. Then 64 connections send single "
    "messages to random topics, and RabbitMQ closes all connections. `after a lost connection` is the rate of accepted "
    "messages in the two seconds afterwards, relative to the two seconds before."
)
_CONNECTIONS: Final = 64
_WINDOW_S: Final = 2.0
_MESSAGE: Final = orjson.dumps({"body": BODY, "delay": 3_600_000})


async def run(bench: Bench) -> None:
    stack = bench.own
    await stack.fresh()
    names = [bench.topic(f"topics-{number}") for number in range(bench.size.topics)]
    async with client.opened(stack.http_url, connections=_CONNECTIONS) as api:
        await _send(api, bench.topic("topics"))
        await stack.settle(bench.size.settles_s)
        before_mib = stack.memory_mib()["rabbitmq"]
        await _make(bench, api, names)
    await stack.settle(bench.size.settles_s)
    bench.add("topics memory rabbitmq", stack.memory_mib()["rabbitmq"] - before_mib, "MiB")
    before = stack.cpu_s()
    await asyncio.sleep(bench.size.idle_s)
    after = stack.cpu_s()
    for part in ("bridge", "rabbitmq"):
        bench.add(f"topics idle cpu {part}", (after[part] - before[part]) / bench.size.idle_s, "CPU s/s")
    async with client.opened(stack.http_url, connections=_CONNECTIONS) as api:
        with bench.attempt("topics after a lost connection"):
            bench.add("topics after a lost connection", await _after_a_loss(bench, api, names), "x")


async def _make(bench: Bench, api: Api, names: list[str]) -> None:
    left = iter(names)
    before, began_s = bench.stack.cpu_s(), monotonic()

    async def make() -> None:
        for name in left:
            while not await _send(api, name):
                pass

    async with loops.together() as group:
        for _ in range(_CONNECTIONS):
            group.create_task(make())
    bench.add("topics made", len(names) / (monotonic() - began_s), "topics/s")
    bench.add_cpu("topics made", before, len(names))


async def _after_a_loss(bench: Bench, api: Api, names: list[str]) -> float:
    accepted_s: list[float] = []
    ended = False

    async def send() -> None:
        while not ended:
            if await _send(api, names[randrange(len(names))]):
                accepted_s.append(monotonic())

    async with loops.together() as group:
        for _ in range(_CONNECTIONS):
            group.create_task(send())
        await asyncio.sleep(bench.size.warm_s + _WINDOW_S)
        lost_s = monotonic()
        await asyncio.to_thread(bench.own.rabbitmq.ctl, "close_all_connections", "a benchmark")
        cut_s = monotonic()
        await asyncio.sleep(_WINDOW_S)
        ended = True
    before = sum(lost_s - _WINDOW_S <= moment < lost_s for moment in accepted_s)
    after = sum(cut_s <= moment < cut_s + _WINDOW_S for moment in accepted_s)
    return after / before


async def _send(api: Api, topic: str) -> bool:
    """Returns whether the message was accepted."""
    answer = await api.post(f"/v1/topics/{topic}/messages", _MESSAGE)
    return answer.status == CREATED
