"""Measures the whole cycle: send, wait, take, acknowledge."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from benchmarks import amqp, client, loops
from benchmarks.bench import Bench
from benchmarks.bodies import BODY
from benchmarks.client import Api

SAYS = (
    "Four senders send batches of 100 over HTTP with a delay of 1 s, with at most 20,000 messages in flight, and so "
    "at most 20,000 a second. Consumers take them at the same time. `http`: four consumers pull 100 messages with a "
    "lease of 30 s and acknowledge them in one request. `amqp`: one AMQP consumer of the ready queue acknowledges its "
    "deliveries, for a `checked` topic and for a `direct` one. The figure is acknowledged messages a second once the "
    "flow is steady, with one bridge process, then with two; `best` is the better result."
)
BATCH = 100
SENDERS = TAKERS = 4
DELAY_MS = 1_000
_PREFETCH = 2_000
_LOOK_S = 0.01
Take = Callable[[], Awaitable[int]]


async def run(bench: Bench) -> None:
    by_processes: dict[str, dict[int, float]] = {}
    for processes in bench.processes(bench.size.processes[:2]):
        ending = "" if processes == 1 else f" {processes} processes"
        for name, cycle in {"http": _http, "amqp checked": _amqp_checked, "amqp direct": _amqp_direct}.items():
            with bench.attempt(f"cycle {name}{ending}"):
                await bench.stack.fresh(processes=processes)
                async with client.opened(bench.stack.http_url, connections=SENDERS + TAKERS) as api:
                    per_s = await cycle(bench, api, f"cycle {name}{ending}")
                by_processes.setdefault(name, {})[processes] = per_s
    for name, found in by_processes.items():
        bench.add_best(f"cycle {name} best", found, "messages/s", best=max)


async def _http(bench: Bench, api: Api, name: str) -> float:
    topic = _topic(bench, name)

    async def take() -> int:
        pulled = await api.ask(f"/v1/topics/{topic}/pull", {"max": BATCH, "wait": "1s", "lease": "30s"})
        receipts = [message["receipt"] for message in pulled["messages"]]
        if not receipts:
            return 0
        done = await api.ask(f"/v1/topics/{topic}/ack", {"receipts": receipts})
        return sum(one["result"] == "acked" for one in done["results"])

    await api.put_policy(topic)
    return await _measure(bench, api, name, take, TAKERS)


async def _amqp_checked(bench: Bench, api: Api, name: str) -> float:
    await api.put_policy(_topic(bench, name))
    return await _consumed(bench, api, name)


async def _amqp_direct(bench: Bench, api: Api, name: str) -> float:
    await api.put_policy(_topic(bench, name), release="direct")
    return await _consumed(bench, api, name)


async def _consumed(bench: Bench, api: Api, name: str) -> float:
    async with amqp.consumed(bench.stack.amqp_url, f"ready.{_topic(bench, name)}", prefetch=_PREFETCH) as arrivals:
        seen = 0

        async def take() -> int:
            nonlocal seen
            await asyncio.sleep(_LOOK_S)
            before, seen = seen, len(arrivals.by_id)
            return seen - before

        return await _measure(bench, api, name, take, 1)


async def _measure(bench: Bench, api: Api, name: str, take: Take, takers: int) -> float:
    topic = _topic(bench, name)
    batch = [{"body": BODY, "delay": DELAY_MS}] * BATCH

    async def send() -> int:
        return BATCH - len(await api.offer_batch(topic, batch))

    before = bench.stack.cpu_s()

    def begun() -> None:
        nonlocal before
        before = bench.stack.cpu_s()

    per_s, messages = await loops.sustained(
        send,
        take,
        senders=SENDERS,
        takers=takers,
        window=bench.size.cycle_window,
        warm_s=DELAY_MS / 1_000 + bench.size.warm_s,
        seconds=bench.size.cycle_s,
        begun=begun,
    )
    bench.add(name, per_s, "messages/s")
    bench.add_cpu(name, before, messages)
    return per_s


def _topic(bench: Bench, name: str) -> str:
    return bench.topic(name.replace(" ", "-"))
