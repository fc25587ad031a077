"""Measures how late the messages of a burst are, which wait in one slot and come due one after the other."""

from __future__ import annotations

from random import uniform
from time import time

from benchmarks import amqp, client
from benchmarks.bench import Bench
from benchmarks.bodies import BODY
from benchmarks.errors import BenchError
from benchmarks.figures import percentiles
from benchmarks.runs.filling import fill

SAYS = (
    "30,000 messages are sent in batches as fast as the bridge accepts them, with random delays of 60-120 s. So they "
    "wait in the slot of a minute, and are due over a minute. Lateness as in `lateness`."
)
_PATIENCE_S = 60.0


async def run(bench: Bench) -> None:
    await bench.stack.fresh()
    topic, count, least_ms = bench.topic("burst"), bench.size.burst, bench.size.burst_delay_ms
    async with client.opened(bench.stack.http_url) as api:
        # The topic's queues must exist before a consumer starts.
        await api.send_batch(topic, [{"id": "first", "body": 0}])
    async with amqp.consumed(bench.stack.amqp_url, f"ready.{topic}") as arrivals:
        await arrivals.until({"first"}, _PATIENCE_S)
        del arrivals.by_id["first"]
        began_s = time()
        await fill(
            bench.stack.http_url, topic, count, lambda: {"body": BODY, "delay": int(uniform(least_ms, 2 * least_ms))}
        )
        if time() - began_s > least_ms / 1_000:
            raise BenchError("the sends were not done before the first message was due")
        before = bench.stack.cpu_s()
        ids = {f"{at:026}" for at in range(count)}
        if lost := await arrivals.until(ids, 2 * least_ms / 1_000 + _PATIENCE_S):
            raise BenchError(f"{len(lost)} of {count} messages did not come")
        bench.add_cpu("burst", before, count)
    late_ms = [arrival.came_ms - arrival.due_ms for arrival in arrivals.by_id.values()]
    for which, value_ms in percentiles(late_ms).items():
        bench.add(f"burst {which}", value_ms, "ms")
    bench.add("burst early", sum(late < 0 for late in late_ms), "messages")
