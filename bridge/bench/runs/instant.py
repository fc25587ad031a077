"""Many messages that are due at one instant."""

from __future__ import annotations

from time import time

from bridge.bench import amqp, client
from bridge.bench.bench import Bench
from bridge.bench.errors import BenchError
from bridge.bench.runs.filling import fill

SAYS = (
    "All messages have one `deliver_at`. Measured is the time from that instant until the ready queue holds them all; "
    "`early` is what it held in the last look before the instant."
)
_SLOWEST_SENDS_PER_S = 2_000
_MARGIN_S = 2.0
_PATIENCE_S = 60.0


async def run(bench: Bench) -> None:
    await bench.stack.fresh()
    topic, count = bench.topic("instant"), bench.size.instant
    queue = f"ready.{topic}"
    # A message that is due at once makes the topic's queues, and the consumer takes it away.
    async with client.opened(bench.stack.http_url) as api, amqp.opened(bench.stack.amqp_url) as broker:
        await api.send_batch(topic, [{"id": "first", "body": 0}])
        arrivals = await broker.arrivals(queue)
        await arrivals.until({"first"}, _PATIENCE_S)
    async with amqp.opened(bench.stack.amqp_url) as broker:
        instant_ms = int((time() + _MARGIN_S + count / _SLOWEST_SENDS_PER_S) * 1_000)
        await fill(bench.stack.http_url, topic, count, lambda: {"body": 0, "deliver_at": instant_ms})
        if time() * 1_000 > instant_ms - 500:
            raise BenchError("the sends were not done before the instant")
        early = 0

        def sampled(at_s: float, depth: int) -> None:
            nonlocal early
            if at_s * 1_000 < instant_ms:
                early = depth

        before = bench.stack.cpu_s()
        all_ready_s = await broker.until_depth(queue, count, instant_ms / 1_000 - time() + _PATIENCE_S, sampled)
    bench.add("instant early", early, "messages")
    bench.add("instant all ready", all_ready_s - instant_ms / 1_000, "s")
    bench.add_cpu("instant", before, count)
