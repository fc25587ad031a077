"""Measures lateness while very many messages wait, and what the waiting messages cost."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping
from time import monotonic, time

from benchmarks import amqp, client
from benchmarks.bench import Bench
from benchmarks.bodies import BODY
from benchmarks.errors import BenchError
from benchmarks.figures import percentiles
from benchmarks.runs import lateness
from benchmarks.runs.filling import fill
from benchmarks.stack import OwnStack

SAYS = (
    "The run fills a topic with messages that are due in 1-20 h. It measures memory after each fifth, once RabbitMQ "
    "has turned its write-ahead log into segments and collected its garbage. The cost of a message is the growth "
    "between the first fifth and the last. Then it measures lists, counts, and lateness as in the run `lateness`. At "
    "the end it stops and starts the broker, and measures the time until the broker answers, and until a bridge has "
    "delivered a message."
)
_HOUR_MS = 3_600_000
_CALLS = 20
_PATIENCE_S = 180.0


async def run(bench: Bench) -> None:
    await bench.stack.fresh()
    topic, count = bench.topic("waiting"), bench.size.backlog
    await _fill(bench, topic, count)
    async with client.opened(bench.stack.http_url) as api:
        await _calls(bench, api, "count", f"/v1/topics/{topic}")
        await _calls(bench, api, "list", f"/v1/topics/{topic}/messages?state=waiting&limit=100")
    await lateness.measure(bench, "backlog", bench.size.rate_per_s, bench.size.lateness_s)
    bench.add("backlog p99 ratio", bench.value("backlog p99") / bench.value("lateness p99"), "x")
    if isinstance(bench.stack, OwnStack):
        await _restart(bench, bench.stack, topic)


async def _fill(bench: Bench, topic: str, count: int) -> None:
    stack, took_s = bench.stack, 0.0
    parts = bench.size.backlog_parts
    share = count // parts
    memory: list[Mapping[str, float]] = []
    disk: list[Mapping[str, int]] = []
    before = stack.cpu_s()
    for done in range(0, share * parts, share):
        took_s += await fill(stack.http_url, topic, share, _message, first=done)
        if isinstance(stack, OwnStack):
            await stack.settle(bench.size.settles_s)
            disk.append(stack.disk_bytes())
        memory.append(stack.memory_mib())
    bench.add("backlog messages", count, "messages")
    bench.add("backlog filled at", count / took_s, "messages/s")
    bench.add_cpu("backlog filling", before, count)
    grown_by = share * (parts - 1)
    for part, mib in memory[-1].items():
        bench.add(f"backlog memory {part}", mib, "MiB")
    by_message = {part: (mib - memory[0][part]) * 1024**2 / grown_by for part, mib in memory[-1].items()}
    for part, size_bytes in by_message.items():
        bench.add(f"backlog memory {part} by message", size_bytes, "bytes")
    if by_message:
        bench.add("backlog memory by message, body kept", by_message["rabbitmq"] + by_message["redis"], "bytes")
        bench.add("backlog memory bridge growth", memory[-1]["bridge"] - memory[0]["bridge"], "MiB")
    for part in disk[-1] if disk else ():
        bench.add(f"backlog disk {part} by message", (disk[-1][part] - disk[0][part]) / grown_by, "bytes")
    lines = {part: [(share * (at + 1), each[part]) for at, each in enumerate(memory)] for part in memory[0]}
    bench.add_series("memory", "messages waiting", "MiB", lines)


async def _calls(bench: Bench, api: client.Api, name: str, path: str) -> None:
    took_ms = []
    for _ in range(_CALLS):
        started_s = monotonic()
        answer = await api.request("GET", path)
        took_ms.append((monotonic() - started_s) * 1_000)
        if answer.status != client.OK:
            raise BenchError(f"GET {path} was answered {answer.status}: {answer.body[:300]!r}")
    found = percentiles(took_ms)
    bench.add(f"backlog {name} call p50", found["p50"], "ms")
    bench.add(f"backlog {name} call max", found["max"], "ms")


async def _restart(bench: Bench, stack: OwnStack, topic: str) -> None:
    await stack.stop_bridge()
    await asyncio.to_thread(stack.rabbitmq.stop)
    started_s = monotonic()
    await asyncio.to_thread(stack.rabbitmq.start)
    bench.add("backlog broker starts in", monotonic() - started_s, "s")
    await stack.start_bridge()
    async with client.opened(stack.http_url) as api, amqp.consumed(stack.amqp_url, f"ready.{topic}") as arrivals:
        give_up_s = time() + _PATIENCE_S
        while await api.offer_batch(topic, [{"id": "after", "body": 0, "delay": 100}]):
            if time() > give_up_s:
                raise BenchError("no message was accepted after the broker's start")
        if await arrivals.until({"after"}, _PATIENCE_S):
            raise BenchError("no message came after the broker's start")
    bench.add("backlog broker delivers in", monotonic() - started_s, "s")


def _message() -> dict[str, object]:
    return {"body": BODY, "delay": random.randint(_HOUR_MS, 20 * _HOUR_MS)}
