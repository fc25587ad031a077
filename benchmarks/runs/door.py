"""Compares publishes and deliveries through the door with those of a client that reaches RabbitMQ directly."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from statistics import median
from time import monotonic

import aio_pika
from aio_pika.abc import AbstractChannel
from pamqp.commands import Basic
from pamqp.common import FieldTable

from benchmarks.amqp import POLL_S
from benchmarks.bench import Bench
from benchmarks.bursts import BurstClient, burst_of
from bridge.local.door import DoorProcess
from topology.names import Names

SAYS = (
    "6 connections publish persistent messages of 1 KiB with `x-delay` to a quorum queue, each with up to 400 "
    "unconfirmed. Then 4 connections consume them, with acknowledgements. Clients reach RabbitMQ directly, or through "
    "`delaybridge door`, which sends each publish to the ingress. Both take turns. A share is the median of the rounds."
)
_PUBLISHERS, _CONSUMERS, _BURST, _WINDOW = 6, 4, 40, 400
_OLD = "reminders"
_WITHIN_S = 120.0
_NAMES = Names(prefix="bench-door")  # beside the ingress of the bridge, which would take the messages
_HEADERS: FieldTable = {"x-delay": 3_600_000, "kind": "reminder"}


async def run(bench: Bench) -> None:
    stack = bench.own
    await stack.fresh()
    door = DoorProcess(stack.folder / "door", {"BRIDGE_AMQP_URL": stack.amqp_url, "BRIDGE_PREFIX": _NAMES.prefix})
    await asyncio.to_thread(door.start)
    try:
        async with await aio_pika.connect(stack.amqp_url) as connection:
            await _measure(bench, await connection.channel(), door)
    finally:
        door.kill()


async def _measure(bench: Bench, channel: AbstractChannel, door: DoorProcess) -> None:
    direct, behind = bench.own.amqp_url, door.at(bench.own.amqp_url)
    ingress, count = _NAMES.ingress_of(_OLD), bench.size.door_messages
    queue = await channel.declare_queue(_NAMES.ingress, durable=True, arguments={"x-queue-type": "quorum"})
    await queue.bind(await channel.declare_exchange(ingress, "fanout", durable=True))
    rates: dict[str, list[float]] = {
        f"{what}{how}": [] for what in ("publishes", "deliveries") for how in (" direct", "")
    }
    for _ in range(bench.size.door_rounds):
        for url, exchange, how in ((direct, ingress, " direct"), (behind, _OLD, "")):
            rates[f"publishes{how}"].append(count / await _publish(url, exchange, count))
            rates[f"deliveries{how}"].append(count / await _consume(url, queue.name, count))
    for what in ("publishes", "deliveries"):
        pairs = zip(rates[what], rates[f"{what} direct"], strict=True)
        bench.add(f"door {what} direct", median(rates[f"{what} direct"]), "messages/s")
        bench.add(f"door {what}", median(rates[what]), "messages/s")
        bench.add(f"door {what}, share", median(through / without for through, without in pairs), "x")


async def _publish(url: str, exchange: str, count: int) -> float:
    """Returns how long it took, in seconds."""
    properties = Basic.Properties(delivery_mode=2, content_type="application/json", headers=_HEADERS)
    burst = burst_of(_BURST, exchange, "reminders", b"x" * 1024, properties)
    async with _clients(url, _PUBLISHERS) as clients:
        began_s = monotonic()
        await asyncio.gather(*(client.publish(burst, _BURST, count // _PUBLISHERS, _WINDOW) for client in clients))
        return monotonic() - began_s


async def _consume(url: str, queue: str, count: int) -> float:
    """Returns how long it took, in seconds."""
    async with _clients(url, _CONSUMERS) as clients, asyncio.timeout(_WITHIN_S):
        began_s = monotonic()
        for client in clients:
            await client.consume(queue)
        while True:
            if sum(client.delivered for client in clients) >= count:
                break
            await asyncio.sleep(POLL_S)
        took_s = monotonic() - began_s
        for client in clients:
            client.settle()
        return took_s


@asynccontextmanager
async def _clients(url: str, count: int) -> AsyncIterator[list[BurstClient]]:
    clients = [await BurstClient.opened(url) for _ in range(count)]
    try:
        yield clients
    finally:
        for client in clients:
            client.close()
