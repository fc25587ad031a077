"""Measures how late messages come at a steady rate."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import orjson

from benchmarks import amqp, client, loops
from benchmarks.amqp import Arrivals
from benchmarks.bench import Bench
from benchmarks.bodies import BODY
from benchmarks.client import CREATED, Api
from benchmarks.errors import BenchError
from benchmarks.figures import curve, percentiles

SAYS = (
    "500 messages a second: an open loop sends single messages with random delays of 1-5 s. Lateness is the moment "
    "when a plain AMQP consumer of the ready queue has the message, minus its `x-delay-due`. `from schedule` counts "
    "from the planned start of the send plus the delay, so it includes the time of the send. `whole life` is the CPU "
    "time that the bridge, RabbitMQ and Redis take for a message, from its send to its delivery."
)
SLOW_SAYS = "The run `lateness` with 50 messages a second."
FAST_SAYS = (
    "The run `lateness` with 2,000 messages a second, first with one bridge process and then with two. `best` is the "
    "better result."
)
_LEAST_MS = 1_000
_PATIENCE_S = 30.0
_CONNECTIONS = 32


async def run(bench: Bench) -> None:
    await bench.stack.fresh()
    await measure(bench, "lateness", bench.size.rate_per_s, bench.size.lateness_s)


async def slow(bench: Bench) -> None:
    """Measures lateness at a low rate."""
    await bench.stack.fresh()
    await measure(bench, "lateness-50", bench.size.slow_rate_per_s, bench.size.lateness_s)


async def fast(bench: Bench) -> None:
    """Measures lateness at a higher rate, with one process and with two."""
    by_processes: dict[int, float] = {}
    for processes in bench.processes(bench.size.processes[:2]):
        name = "lateness-2000" if processes == 1 else f"lateness-2000 {processes} processes"
        with bench.attempt(name):
            await bench.stack.fresh(processes=processes)
            await measure(bench, name, bench.size.fast_rate_per_s, bench.size.fast_s)
            by_processes[processes] = bench.value(f"{name} p99")
    bench.add_best("lateness-2000 best p99", by_processes, "ms", best=min)


async def measure(bench: Bench, name: str, rate_per_s: int, seconds: float) -> None:
    """Measures lateness once and adds its rows under `name`."""
    topic = bench.topic(name.replace(" ", "-"))
    count = int(rate_per_s * seconds)
    delays_ms = [random.uniform(_LEAST_MS, bench.size.longest_ms) for _ in range(count)]
    stack = bench.stack
    async with (
        client.opened(stack.http_url, connections=_CONNECTIONS) as api,
        _warmed_up(bench, api, topic) as arrivals,
    ):
        before = stack.cpu_s()
        accepted, scheduled_ms = await _send(api, topic, delays_ms, rate_per_s)
        lost = await arrivals.until(accepted, bench.size.longest_ms / 1_000 + _PATIENCE_S)
        bench.add(f"{name} whole life", bench.add_cpu(name, before, count), "CPU s/1,000")
    came = arrivals.by_id
    late_ms = [arrival.came_ms - arrival.due_ms for arrival in came.values()]
    _add_percentiles(bench, name, late_ms)
    from_schedule = [
        came[str(at)].came_ms - scheduled_ms[at] - int(delays_ms[at]) for at in range(count) if str(at) in came
    ]
    _add_percentiles(bench, f"{name} from schedule", from_schedule)
    bench.add_series("lateness", "% of messages", "ms late", {name: curve(late_ms)})
    if name == "lateness":
        bench.add_series("peers", "% of messages", "ms late", {"delaybridge": curve(from_schedule)})
    bench.add(f"{name} early", sum(late < 0 for late in late_ms), "messages")
    bench.add(f"{name} lost", len(lost), "messages")
    bench.add(f"{name} twice", arrivals.twice, "messages")
    bench.add(f"{name} refused", count - len(accepted), "messages")


@asynccontextmanager
async def _warmed_up(bench: Bench, api: Api, topic: str) -> AsyncIterator[Arrivals]:
    """Consumes the topic's ready queue, after a message has passed through every slot that the delays need."""
    messages = {
        f"warm-{ms}": {"id": f"warm-{ms}", "body": 0, "delay": ms} for ms in range(0, bench.size.longest_ms + 1, 100)
    }
    await api.send_batch(topic, list(messages.values()))
    async with amqp.consumed(bench.stack.amqp_url, f"ready.{topic}") as arrivals:
        if missing := await arrivals.until(messages.keys(), _PATIENCE_S):
            raise BenchError(f"{len(missing)} of {len(messages)} messages of the warm-up did not come")
        arrivals.by_id.clear()
        yield arrivals


async def _send(api: Api, topic: str, delays_ms: list[float], rate_per_s: int) -> tuple[set[str], list[float]]:
    """Sends the messages. Returns the accepted ids, and the planned start moments of the sends in Unix ms."""
    path = f"/v1/topics/{topic}/messages"
    accepted: set[str] = set()

    async def send(at: int) -> None:
        body = {"id": str(at), "body": BODY, "delay": int(delays_ms[at])}
        answer = await api.post(path, orjson.dumps(body))
        if answer.status == CREATED:
            accepted.add(str(at))

    scheduled_ms = await loops.open_loop(len(delays_ms), rate_per_s, send)
    return accepted, scheduled_ms


def _add_percentiles(bench: Bench, name: str, values_ms: list[float]) -> None:
    if not values_ms:
        raise BenchError(f"{name}: no message came")
    for which, value_ms in percentiles(values_ms).items():
        bench.add(f"{name} {which}", value_ms, "ms")
