"""Measures the release of many overdue messages after an outage of all bridges."""

from __future__ import annotations

import asyncio
import random
from time import time

import orjson

from benchmarks import amqp, client, loops
from benchmarks.bench import Bench
from benchmarks.bodies import BODY
from benchmarks.errors import BenchError
from benchmarks.figures import percentiles
from benchmarks.runs.filling import fill

SAYS = (
    "All messages of one topic become due while no bridge runs; then the run starts one. `released at` is the rate at "
    "which an AMQP consumer receives them, from the first to the last. After the bridge's first answer, new messages "
    "with delays of 1-2 s go to another topic and to the same one, 50 a second each. `others` and `same topic` are "
    "their lateness. The counts beside them say how many were due before the last overdue message had come."
)
_SLOWEST_SENDS_PER_S = 3_000
_STOPPED_WITHIN_S = 6.0
_PATIENCE_S = 120.0
_STEADY_S = 1.0
_RATE_PER_S = 100  # of both topics together
_LEAST_MS, _MOST_MS = 1_000, 2_000
_SECONDS = 8.0


async def run(bench: Bench) -> None:
    stack, count = bench.own, bench.size.outage
    await stack.fresh()
    flooded, other = bench.topic("outage"), bench.topic("outage-other")
    async with client.opened(stack.http_url) as api:
        for topic in (flooded, other):
            await api.put_policy(topic)
    instant_ms = int((time() + _STOPPED_WITHIN_S + count / _SLOWEST_SENDS_PER_S) * 1_000)
    await fill(stack.http_url, flooded, count, lambda: {"body": BODY, "deliver_at": instant_ms})
    await stack.stop_bridge()
    if time() * 1_000 > instant_ms:
        raise BenchError("the sends were not done, and the bridge not stopped, before the messages were due")
    async with amqp.opened(stack.amqp_url) as broker:
        # The messages are in bundles, so the depth of the queue is not known in advance.
        await asyncio.sleep(instant_ms / 1_000 - time())
        await broker.until_steady("delay.checkpoint", _STEADY_S, _PATIENCE_S)
    overdue = {f"{at:026}" for at in range(count)}
    async with (
        amqp.consumed(stack.amqp_url, f"ready.{flooded}", prefetch=2_000) as of_flooded,
        amqp.consumed(stack.amqp_url, f"ready.{other}") as of_other,
    ):
        before = stack.cpu_s()
        await stack.start_bridge()
        answers_s = time()
        sent = await _send(bench, (flooded, other))
        for arrivals, ids in ((of_flooded, overdue | sent[flooded]), (of_other, sent[other])):
            if lost := await arrivals.until(ids, _PATIENCE_S):
                raise BenchError(f"{len(lost)} of {len(ids)} messages did not come")
        bench.add_cpu("outage", before, count)
    came_s = [of_flooded.by_id[each].came_ms / 1_000 for each in overdue]
    bench.add("outage overdue", count, "messages")
    bench.add("outage released at", count / (max(came_s) - min(came_s)), "messages/s")
    bench.add("outage last after the first answer", max(came_s) - answers_s, "s")
    for name, arrivals, ids in (("others", of_other, sent[other]), ("same topic", of_flooded, sent[flooded])):
        new = [arrivals.by_id[each] for each in ids]
        behind = sum(one.due_ms < max(came_s) * 1_000 for one in new)
        bench.add(f"outage {name} due while others were overdue", behind, "messages")
        for which, value_ms in percentiles([one.came_ms - one.due_ms for one in new]).items():
            bench.add(f"outage {name} {which}", value_ms, "ms")


async def _send(bench: Bench, topics: tuple[str, str]) -> dict[str, set[str]]:
    """The ids that were accepted, by topic."""
    accepted: dict[str, set[str]] = {topic: set() for topic in topics}
    seconds = _SECONDS if bench.size.judged else 1.0
    async with client.opened(bench.stack.http_url, connections=8) as api:

        async def send(at: int) -> None:
            topic, message_id = topics[at % 2], f"new-{at}"
            body = {"id": message_id, "body": BODY, "delay": random.randint(_LEAST_MS, _MOST_MS)}
            answer = await api.post(f"/v1/topics/{topic}/messages", orjson.dumps(body))
            if answer.status == client.CREATED:
                accepted[topic].add(message_id)

        await loops.open_loop(round(seconds * _RATE_PER_S), _RATE_PER_S, send)
    return accepted
