"""The same lateness on top of many messages that wait."""

from __future__ import annotations

import random

from bridge.bench.bench import Bench
from bridge.bench.runs import lateness
from bridge.bench.runs.filling import fill

SAYS = "The run of `lateness` once more, while a topic beside it holds messages with random delays of 1-20 h."
_HOUR_MS = 3_600_000


async def run(bench: Bench) -> None:
    await bench.stack.fresh()
    before_mib = bench.stack.memory_mib()
    count = bench.size.backlog

    def message() -> dict[str, object]:
        return {"body": 0, "delay": random.randint(_HOUR_MS, 20 * _HOUR_MS)}

    took_s = await fill(bench.stack.http_url, bench.topic("waiting"), count, message)
    bench.add("backlog messages", count, "messages")
    bench.add("backlog filled at", count / took_s, "messages/s")
    for part, mib in bench.stack.memory_mib().items():
        bench.add(f"backlog memory {part}", mib, "MiB")
        bench.add(f"backlog memory {part} by message", (mib - before_mib[part]) * 1024**2 / count, "bytes")
    await lateness.measure(bench, "backlog")
    bench.add("backlog p99 ratio", bench.value("backlog p99") / bench.value("lateness p99"), "x")
