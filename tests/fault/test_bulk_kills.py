"""Tests that a bulk operation whose process is killed ends: each message is changed and counted once, and no other."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest_asyncio

from bridge.local.ports import free_ports
from bridge.local.rabbitmq import RabbitNode
from bridge.local.redis import RedisNode
from bridge.service.pools.bulk_actions import AT_ONCE
from bridge.store.client import Store
from bridge.store.keys import Keys
from tests.forked_bridge import ForkedBridge
from tests.integration.bulk import act, operation, send_numbered, until_ended
from tests.integration.own import Own, own_bridge
from tests.integration.topic import Topic, due_ms
from tests.waiting import pause

_COUNT = 2_500
_OTHERS = 100
_SHOWN = 25  # one in so many is looked at


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


async def test_a_process_frozen_in_an_operation_that_another_ends_changes_nothing_more_and_goes_on(own: Own) -> None:
    topic, other = own.topic, own.with_fresh_topic().topic
    ids = await send_numbered(topic, "in", _COUNT, delay="2h")
    await send_numbered(other, "in", AT_ONCE + 1, delay="2h")
    begun = (await act(topic, "move", id_prefix="in-", delay="3h", expect=202))["operation"]
    at_first = due_ms(await topic.look(ids[1_200]))
    while due_ms(await topic.look(ids[1_200])) == at_first:  # it is in the middle of a portion then
        await pause()
    os.kill(own.bridge.pid, signal.SIGSTOP)
    second = ForkedBridge(own.bridge.log_file.with_name("second.log"), free_ports(1)[0], own.settings)
    try:
        await asyncio.to_thread(second.start)
        async with httpx2.AsyncClient(base_url=second.url, timeout=90) as client:
            there = Topic(client, topic.name)
            assert (await operation(there, begun["id"]))["done"] < _COUNT
            await until_ended(there, begun["id"])  # it waits for the end of the lease, which lasts 15 s
            again = (await act(there, "move", id_prefix="in-", delay="5h", expect=202))["operation"]
            moved = await until_ended(there, again["id"])
            assert (moved["state"], moved["done"]) == ("done", _COUNT)
            due = [due_ms(await there.look(one)) for one in ids[::_SHOWN]]
    finally:
        await asyncio.to_thread(second.kill)
        os.kill(own.bridge.pid, signal.SIGCONT)
    while (await topic.client.get(f"/v1/topics/{topic.name}")).status_code == 503:
        await pause()  # it refuses what came while it was frozen
    # The thawed process takes this one once it has let the first one go.
    further = (await act(other, "delete", id_prefix="in-", expect=202))["operation"]
    assert (await until_ended(other, further["id"]))["done"] == AT_ONCE + 1
    assert [due_ms(await topic.look(one)) for one in ids[::_SHOWN]] == due
    first = await operation(topic, begun["id"])
    assert (first["state"], first["done"], first["failed"]) == ("done", _COUNT, 0)
