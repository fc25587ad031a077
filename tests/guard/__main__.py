"""Compares what a message costs the bridge with its cost before the last change of the code: `python -m tests.guard`.

Both versions run on the same servers and do the same work, one after the other. It ends with 1 when two measurements
find a kind of work slower: tests/guard/verdict.py has the limits. AGAINST names another commit to compare with.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Final

import uvloop

from benchmarks.errors import BenchError
from bridge.local.errors import LocalError
from bridge.local.rabbitmq import RabbitNode
from bridge.local.redis import RedisNode
from tests.guard.competitor import competing
from tests.guard.former import Former, Incomparable, former
from tests.guard.meter import CpuTime
from tests.guard.verdict import Measured, Row, compared, table
from tests.guard.work import WORKS

PROJECT: Final = Path(__file__).parents[2]
TURNS: Final = 5
WARM_TURNS: Final = 1  # connections, queues and caches are new


async def main() -> int:
    """Compares both versions, and returns the exit code."""
    folder = PROJECT / ".local" / "guard"
    with _emptied(folder):
        before = former(PROJECT, folder / "before", os.environ.get("AGAINST"))
        print(f"guard: against {before.says}", flush=True)
        rabbit, redis = RabbitNode(folder / "rabbitmq"), RedisNode(folder / "redis")
        try:
            await asyncio.gather(asyncio.to_thread(rabbit.start), asyncio.to_thread(redis.start))
            rows = await _compared(before, rabbit, redis, folder / "1")
            if any(row.slower for row in rows):
                print("guard: once more, as that may have been the machine", flush=True)
                again = await _compared(before, rabbit, redis, folder / "2")
                rows = [row for row, second in zip(rows, again, strict=True) if row.slower and second.slower]
        finally:
            rabbit.kill()
            redis.kill()
    slower = [row.work for row in rows if row.slower]
    if slower:
        print(f"guard: slower than before: {', '.join(slower)}")
    return int(bool(slower))


async def _compared(before: Former, rabbit: RabbitNode, redis: RedisNode, folder: Path) -> list[Row]:
    async with AsyncExitStack() as stack:
        pair = [
            await stack.enter_async_context(competing(code, name, rabbit, redis, folder / name))
            for name, code in (("before", before.folder), ("now", PROJECT))
        ]
        turns: dict[str, list[tuple[Measured, Measured]]] = {work: [] for work in WORKS}
        for turn in range(WARM_TURNS + TURNS):
            for work, done in turns.items():
                # The two versions take turns at going first.
                found = {one: await one.measured(work) for one in (pair if turn % 2 else pair[::-1])}
                if turn >= WARM_TURNS:
                    done.append((found[pair[0]], found[pair[1]]))
        rows = [compared(work, done) for work, done in turns.items()]
        if isinstance(pair[0].meter, CpuTime):
            print("guard: CPU time in place of instructions, which are not counted on this machine")
        print(table(rows, pair[0].meter.unit), flush=True)
        return rows


@contextmanager
def _emptied(folder: Path) -> Iterator[None]:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    yield
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    try:
        sys.exit(uvloop.run(main()))
    except Incomparable as why:
        print(f"guard: nothing is compared: {why}")
    except (LocalError, BenchError) as error:
        sys.exit(f"guard: {error}")
