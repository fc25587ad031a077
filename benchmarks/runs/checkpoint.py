"""Measures how fast one checkpoint releases a backlog of due messages."""

from __future__ import annotations

import asyncio
from time import time

from benchmarks import amqp
from benchmarks.bench import Bench
from benchmarks.bodies import BODY
from benchmarks.errors import BenchError
from benchmarks.runs.filling import fill

SAYS = (
    "The run sends messages and stops the bridge, so that all due messages wait in the checkpoint's queue. Then it "
    "starts one bridge. The time counts from the last check that finds the ready queue empty to the first that finds "
    "all messages in it."
)
_CHECKPOINT_QUEUE = "delay.checkpoint"
_SLOWEST_SENDS_PER_S = 2_000
_STOPPED_WITHIN_S = 6.0
_PATIENCE_S = 120.0
_STEADY_S = 1.0


async def run(bench: Bench) -> None:
    stack, count = bench.own, bench.size.checkpoint
    await stack.fresh()
    topic = bench.topic("checkpoint")
    instant_ms = int((time() + _STOPPED_WITHIN_S + count / _SLOWEST_SENDS_PER_S) * 1_000)
    await fill(stack.http_url, topic, count, lambda: {"body": BODY, "deliver_at": instant_ms})
    await stack.stop_bridge()
    if time() * 1_000 > instant_ms:
        raise BenchError("the sends were not done, and the bridge not stopped, before the messages were due")
    async with amqp.opened(stack.amqp_url) as broker:
        # The messages are in bundles, so the depth of the queue is not known in advance.
        await asyncio.sleep(instant_ms / 1_000 - time())
        await broker.until_steady(_CHECKPOINT_QUEUE, _STEADY_S, _PATIENCE_S)
        empty_s = started_s = time()
        before = stack.cpu_s()

        def sampled(at_s: float, depth: int) -> None:
            nonlocal empty_s, before
            if depth == 0:
                empty_s, before = at_s, stack.cpu_s()

        # `until_depth` runs beside the start: on a busy machine the bridge releases before it reports that it is ready.
        async with asyncio.TaskGroup() as group:
            group.create_task(stack.start_bridge())
            full_s = await broker.until_depth(f"ready.{topic}", count, _PATIENCE_S, sampled)
    if empty_s == started_s:
        raise BenchError("the checkpoint had released messages before the first look")
    bench.add("checkpoint", count / (full_s - empty_s), "messages/s")
    bench.add_cpu("checkpoint", before, count)
