"""Tests the rate limits of lmstfy's wire on a real Redis: windows, and requests that give their unit back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from uuid import uuid4

import pytest
import pytest_asyncio

from bridge.local.redis import RedisNode
from bridge.model.lmstfy import LmstfyToken
from bridge.store.client import Store
from bridge.store.kept.lmstfy import LmstfyStore
from bridge.store.keys import Keys
from tests.waiting import pause

LONG_MS = 600_000


@pytest_asyncio.fixture
async def records(redis_node: RedisNode) -> AsyncIterator[LmstfyStore]:
    store = Store(redis_node.url, timeout_ms=10_000)
    yield LmstfyStore(store, Keys(f"windows-{uuid4().hex[:12]}"))
    await store.close()


@pytest.fixture
def token() -> LmstfyToken:
    return LmstfyToken("default", "shop", uuid4().hex)


async def test_concurrent_requests_cannot_exceed_the_limit(records: LmstfyStore, token: LmstfyToken) -> None:
    takes = (records.take(token, "produce", limit=10, length_ms=LONG_MS) for _ in range(50))
    ends_ms = [end_ms for end_ms in await asyncio.gather(*takes) if end_ms]
    assert len(ends_ms) == 10
    assert len(set(ends_ms)) == 1


async def test_each_direction_and_token_has_its_own_window(records: LmstfyStore, token: LmstfyToken) -> None:
    other = LmstfyToken("default", "shop", uuid4().hex)
    for each, direction in ((token, "produce"), (token, "consume"), (other, "produce")):
        assert await records.take(each, direction, limit=1, length_ms=LONG_MS)
        assert not await records.take(each, direction, limit=1, length_ms=LONG_MS)


async def test_a_returned_unit_can_be_taken_again_and_a_refused_request_takes_none(
    records: LmstfyStore, token: LmstfyToken
) -> None:
    ends_ms = await records.take(token, "consume", limit=1, length_ms=LONG_MS)
    for _ in range(3):
        assert not await records.take(token, "consume", limit=1, length_ms=LONG_MS)
    await records.give_back(token, "consume", ends_ms)
    assert await records.take(token, "consume", limit=1, length_ms=LONG_MS) == ends_ms


async def test_a_unit_does_not_return_to_a_later_window(records: LmstfyStore, token: LmstfyToken) -> None:
    first_ms = await records.take(token, "consume", limit=1, length_ms=300)
    async with asyncio.timeout(30):
        while not (second_ms := await records.take(token, "consume", limit=1, length_ms=LONG_MS)):
            await pause()
    assert second_ms > first_ms
    await records.give_back(token, "consume", first_ms)
    assert not await records.take(token, "consume", limit=1, length_ms=LONG_MS)
