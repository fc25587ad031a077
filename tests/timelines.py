"""Reads the timelines of all records of a Redis, and names those that the scripts' headers do not explain."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

from redis.asyncio import Redis

from benchmarks.loops import together
from bridge.model.message import State
from bridge.model.timeline import What
from tests.life_table import TABLE

RECORDS: Final = "*/m/*"
"""Matches the keys of all records (`bridge/store/keys.py`)."""

READ: Final = """
local out = {}
for at, key in ipairs(KEYS) do
  local stored = redis.call('GET', key)
  local found = { key }
  if stored then
    local r, timeline = cmsgpack.unpack(stored)
    found[2] = r[1]
    local values = timeline and { cmsgpack.unpack(string.sub(timeline, 3)) } or {}
    for one = 1, #values, 6 do found[#found + 1] = values[one] end
  end
  out[at] = found
end
return out
"""
"""Returns, for each key, the key, the state, and the codes of the timeline's transitions (`lua/_record.lua`)."""

_WHATS: Final = tuple(What)
_AT_ONCE: Final = 500
_LOOK_S: Final = 3.0


def misfits(found: Iterable[Sequence[Any]]) -> Iterator[str]:
    """Yields what the table does not explain in the answer of `READ`, with the key and the timeline."""
    for key, *values in found:
        if values:  # else Redis has forgotten the record meanwhile
            state, *codes = values
            words = [_WHATS[code - 1] for code in codes]
            if misfit := TABLE.misfit(words, State(state)):
                yield f"the timeline of {key.decode()} has {misfit}: {', '.join(words)}"


async def misfits_in(url: str) -> list[str]:
    """Returns what the table does not explain in the timelines of all records of a server."""
    lines: list[str] = []
    async with Redis.from_url(url) as redis:
        keys = [key async for key in redis.scan_iter(match=RECORDS, count=1_000)]
        for start in range(0, len(keys), _AT_ONCE):
            some = keys[start : start + _AT_ONCE]
            lines += misfits(await redis.eval(READ, len(some), *some))
    return lines


@asynccontextmanager
async def watched_timelines(url: str) -> AsyncIterator[set[str]]:
    """Looks at all timelines of a server every few seconds. Yields what the table does not explain, as it comes."""
    lines: set[str] = set()

    async def watch() -> None:
        while True:
            lines.update(await misfits_in(url))
            await asyncio.sleep(_LOOK_S)

    async with together() as group:
        watching = group.create_task(watch())
        yield lines
        watching.cancel()
