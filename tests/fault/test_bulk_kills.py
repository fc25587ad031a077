"""Tests that a bulk operation whose process is killed ends: each message is changed and counted once, and no other."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest_asyncio

from bridge.local.rabbitmq import RabbitNode
from bridge.local.redis import RedisNode
from bridge.store.client import Store
from bridge.store.keys import Keys
from tests.integration.bulk import act, operation, send_numbered, until_ended
from tests.integration.own import Own, own_bridge
from tests.waiting import pause

_COUNT = 2_500
_OTHERS = 100


@pytest_asyncio.fixture
async def own(rabbit: RabbitNode, redis_node: RedisNode, local_dir: Path) -> AsyncIterator[Own]:
    async with own_bridge(rabbit, redis_node.url, local_dir) as own:
        yield own


async def test_operation_of_a_killed_process_makes_each_message_due_once(own: Own) -> None:
    topic = own.topic
    ids = await send_numbered(topic, "in", _COUNT, delay="2h", labels={"customer": "42"})
    await send_numbered(topic, "in-of-others", _OTHERS, delay="2h", labels={"customer": "43"})
    await send_numbered(topic, "out", _OTHERS, delay="2h", labels={"customer": "42"})
    wanted: dict[str, Any] = {"id_prefix": "in-", "labels": {"customer": "42"}}
    tried = await act(topic, "run-now", **wanted, dry_run=True)
    begun = (await act(topic, "run-now", **wanted, expect=202))["operation"]
    while (await operation(topic, begun["id"]))["done"] < _COUNT // 3:
        await pause()
    await asyncio.to_thread(own.bridge.kill)
    # What the time does in 15 seconds: the lease of the dead process ends.
    store = Store(own.settings["BRIDGE_REDIS_URL"], timeout_ms=10_000)
    key = Keys(own.settings["BRIDGE_REDIS_PREFIX"]).operation_leases
    left = await store.command("ZADD", key, "XX", "CH", 0, begun["id"])
    await store.close()
    assert left == 1, "the operation had ended before the process was killed"
    await asyncio.to_thread(own.bridge.start)
    ended = await until_ended(topic, begun["id"])
    assert (ended["state"], ended["failed"], ended["failures"]) == ("done", 0, [])
    assert tried["matched"] == ended["matched"] == ended["done"] == _COUNT
    delivered: list[str] = []
    while len(delivered) < _COUNT:
        pulled = await topic.pull(max=100)
        delivered += [message["id"] for message in pulled]
        await topic.ack_many(receipts=[message["receipt"] for message in pulled])
    assert sorted(delivered) == ids
    counts = (await topic.info())["counts"]
    assert (counts["waiting"], counts["ready"], counts["acked"]) == (2 * _OTHERS, 0, _COUNT)
