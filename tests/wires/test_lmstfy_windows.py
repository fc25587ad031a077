"""The lmstfy wire's limits on a real Redis: windows, and units given back to them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from uuid import uuid4

import pytest
import pytest_asyncio

from bridge.local.redis import RedisNode
from bridge.store.client import Store
from bridge.store.keys import Keys
from bridge.store.lmstfy import Holder, LmstfyStore
from tests.waiting import pause

LONG_MS = 600_000


@pytest_asyncio.fixture
async def kept(redis_node: RedisNode) -> AsyncIterator[LmstfyStore]:
    store = Store(redis_node.url, timeout_ms=10_000)
    yield LmstfyStore(store, Keys(f"windows-{uuid4().hex[:12]}"))
    await store.close()


@pytest.fixture
def holder() -> Holder:
    return Holder("default", "shop", uuid4().hex)


async def test_of_many_at_once_as_many_are_let_in_as_the_limit_says(kept: LmstfyStore, holder: Holder) -> None:
    takes = (kept.take(holder, "produce", limit=10, length_ms=LONG_MS) for _ in range(50))
    ends_ms = [one for one in await asyncio.gather(*takes) if one]
    assert len(ends_ms) == 10
    assert len(set(ends_ms)) == 1


async def test_directions_and_tokens_are_counted_apart(kept: LmstfyStore, holder: Holder) -> None:
    other = Holder("default", "shop", uuid4().hex)
    for one, direction in ((holder, "produce"), (holder, "consume"), (other, "produce")):
        assert await kept.take(one, direction, limit=1, length_ms=LONG_MS)
        assert not await kept.take(one, direction, limit=1, length_ms=LONG_MS)


async def test_a_unit_given_back_can_be_taken_again_and_what_is_refused_takes_none(
    kept: LmstfyStore, holder: Holder
) -> None:
    ends_ms = await kept.take(holder, "consume", limit=1, length_ms=LONG_MS)
    for _ in range(3):
        assert not await kept.take(holder, "consume", limit=1, length_ms=LONG_MS)
    await kept.give_back(holder, "consume", ends_ms)
    assert await kept.take(holder, "consume", limit=1, length_ms=LONG_MS) == ends_ms


async def test_a_unit_is_given_back_to_no_later_window(kept: LmstfyStore, holder: Holder) -> None:
    first_ms = await kept.take(holder, "consume", limit=1, length_ms=300)
    async with asyncio.timeout(30):
        while not (second_ms := await kept.take(holder, "consume", limit=1, length_ms=LONG_MS)):
            await pause()
    assert second_ms > first_ms
    await kept.give_back(holder, "consume", first_ms)
    assert not await kept.take(holder, "consume", limit=1, length_ms=LONG_MS)
