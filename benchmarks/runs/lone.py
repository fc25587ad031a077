"""Measures how long a single sender waits for the answer to a send."""

from __future__ import annotations

import asyncio
from time import monotonic

import orjson

from benchmarks import client
from benchmarks.bench import Bench
from benchmarks.bodies import BODY
from benchmarks.client import CREATED, Api
from benchmarks.errors import BenchError
from benchmarks.figures import percentiles

SAYS = (
    "20 sends a second on an idle stack, one at a time, at planned moments. The figure is the time from the planned "
    "moment to the answer. The answer comes once a quorum queue has confirmed the message and Redis has its record."
)
_SPIN_S = 0.003  # a timer may be a millisecond late, and that would count as the bridge's time
_WARM = 20


async def run(bench: Bench) -> None:
    await bench.stack.fresh()
    size = bench.size
    path = f"/v1/topics/{bench.topic('lone')}/messages"
    body = orjson.dumps({"body": BODY, "delay": 600_000})
    count = max(5, int(size.lone_s * size.lone_rate_per_s))
    took_ms = []
    async with client.opened(bench.stack.http_url) as api:
        for _ in range(_WARM):
            await _send(api, path, body)
        before = bench.stack.cpu_s()
        start_s = monotonic() + 0.05
        for number in range(count):
            planned_s = start_s + number / size.lone_rate_per_s
            await asyncio.sleep(max(0.0, planned_s - monotonic() - _SPIN_S))
            while monotonic() < planned_s:
                pass
            await _send(api, path, body)
            took_ms.append((monotonic() - planned_s) * 1_000)
    for which, value_ms in percentiles(took_ms).items():
        bench.add(f"lone {which}", value_ms, "ms")
    bench.add_cpu("lone", before, count)


async def _send(api: Api, path: str, body: bytes) -> None:
    answer = await api.post(path, body)
    if answer.status != CREATED:
        raise BenchError(f"a send was answered {answer.status}: {answer.body[:300]!r}")
