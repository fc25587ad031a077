"""Measures the release of many messages that are due at the same instant."""

from __future__ import annotations

from time import time

from benchmarks import amqp, client
from benchmarks.bench import Bench
from benchmarks.bodies import BODY
from benchmarks.errors import BenchError
from benchmarks.runs.filling import fill

SAYS = (
    "All messages have the same `deliver_at`. `first` and `last` are the times from then until an AMQP consumer of "
    "the ready queue has the first and the last message. `early` is the number of messages that came before it."
)
_SLOWEST_SENDS_PER_S = 2_000
_MARGIN_S = 2.0
_PATIENCE_S = 60.0


async def run(bench: Bench) -> None:
    await bench.stack.fresh()
    topic, count = bench.topic("instant"), bench.size.instant
    async with client.opened(bench.stack.http_url) as api:
        # The topic's queues must exist before a consumer starts.
        await api.send_batch(topic, [{"id": "first", "body": 0}])
    async with amqp.consumed(bench.stack.amqp_url, f"ready.{topic}") as arrivals:
        await arrivals.until({"first"}, _PATIENCE_S)
        del arrivals.by_id["first"]
        instant_ms = int((time() + _MARGIN_S + count / _SLOWEST_SENDS_PER_S) * 1_000)
        await fill(bench.stack.http_url, topic, count, lambda: {"body": BODY, "deliver_at": instant_ms})
        if time() * 1_000 > instant_ms - 500:
            raise BenchError("the sends were not done before the instant")
        before = bench.stack.cpu_s()
        ids = {f"{at:026}" for at in range(count)}
        if lost := await arrivals.until(ids, instant_ms / 1_000 - time() + _PATIENCE_S):
            raise BenchError(f"{len(lost)} of {count} messages did not come")
    late_ms = [arrival.came_ms - instant_ms for arrival in arrivals.by_id.values()]
    bench.add("instant early", sum(late < 0 for late in late_ms), "messages")
    bench.add("instant first", min(late_ms) / 1_000, "s")
    bench.add("instant last", max(late_ms) / 1_000, "s")
    bench.add_cpu("instant", before, count)
