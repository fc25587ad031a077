"""Tests that a message stays in its lane, and that lanes which a new setting leaves out are still served."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import httpx2
import pytest
import pytest_asyncio

from bridge.local.ports import free_ports
from bridge.local.rabbitmq import RabbitNode
from bridge.local.redis import RedisNode
from tests.forked_bridge import ForkedBridge
from tests.integration.own import Own, own_bridge
from tests.integration.topic import Topic
from tests.waiting import pause
from topology.names import Names

NAMES = Names(lanes=3)
OF_LANE = {0: "order-2", 1: "order-1", 2: "order-3"}
"""An id of each lane."""
IDS = set(OF_LANE.values())
THREE, ONE = {"BRIDGE_LANES": "3"}, {"BRIDGE_LANES": "1"}


@pytest_asyncio.fixture(scope="module")
async def one_lane(rabbit: RabbitNode, redis_node: RedisNode, local_dir: Path) -> AsyncIterator[Own]:
    """A bridge with one lane. Its virtual host is that of all tests here: RabbitMQ takes seconds of CPU to declare a
    wheel of three lanes, and to delete it."""
    async with own_bridge(rabbit, redis_node.url, local_dir, **ONE) as own:
        yield own


@pytest_asyncio.fixture(scope="module")
async def own(one_lane: Own, local_dir: Path) -> AsyncIterator[Own]:
    """A bridge with three lanes, in place of the one with one lane."""
    one_lane.bridge.kill()
    bridge = bridge_beside(one_lane, local_dir / "three", THREE)
    await asyncio.to_thread(bridge.start)
    async with httpx2.AsyncClient(base_url=bridge.url, timeout=90) as client:
        topic = Topic(client, f"lanes-{uuid4().hex[:12]}")
        own = replace(one_lane, bridge=bridge, topic=topic, settings=one_lane.settings | THREE)
        await own.topic.put_policy()  # its queues are declared
        yield own
    bridge.kill()


def bridge_beside(own: Own, folder: Path, settings: dict[str, str]) -> ForkedBridge:
    return ForkedBridge(folder / f"beside-{own.vhost}" / "bridge.log", free_ports(1)[0], own.settings | settings)


async def management(rabbit: RabbitNode, method: str, path: str) -> Any:
    async with httpx2.AsyncClient(base_url=f"{rabbit.management_url}/api/", timeout=30) as client:
        answer = await client.request(method, path)
        answer.raise_for_status()
        return answer.json() if answer.content else None


async def test_bridge_with_fewer_lanes_serves_those_of_a_killed_one(
    one_lane: Own, rabbit: RabbitNode, local_dir: Path
) -> None:
    own = one_lane
    more = bridge_beside(own, local_dir / "killed", THREE)
    await asyncio.to_thread(more.start)
    try:
        async with httpx2.AsyncClient(base_url=more.url, timeout=90) as client:
            await own.topic.through(client).send_many(*({"id": one, "body": 1, "delay": "2s"} for one in IDS))
    finally:
        more.kill()
    # A bridge searches for lanes with each new connection, and otherwise every ten minutes.
    await own.amqp.until_consumers("delay.lane2.checkpoint", 0)
    await _break_connections(rabbit, own.vhost)
    assert set(await own.topic.pull_ids(3)) == IDS
    # The lanes that were found are served at once, and the loop of the first lane pauses before it starts again.
    while (await own.topic.client.get("/health/ready")).status_code != 200:
        await pause()


async def _break_connections(rabbit: RabbitNode, vhost: str) -> None:
    names: list[str] = []
    while not names:
        found = await management(rabbit, "GET", f"vhosts/{vhost}/connections")
        names = [one["name"] for one in found if str(one.get("user_provided_name")).startswith("delaybridge")]
        await pause()
    for name in names:
        try:
            await management(rabbit, "DELETE", f"connections/{quote(name, safe='')}")
        except httpx2.HTTPStatusError as error:
            if error.response.status_code != 404:  # of a killed bridge, which RabbitMQ lists a moment longer
                raise


async def test_message_waits_in_the_lane_of_its_id(own: Own, local_dir: Path) -> None:
    # In a bundle they would be in the lane of the bundle's id.
    alone = bridge_beside(own, local_dir / "alone", {"BRIDGE_BUNDLES": "false"})
    try:
        await asyncio.to_thread(alone.start)
        async with httpx2.AsyncClient(base_url=alone.url, timeout=60) as client:
            topic = own.topic.beside("waits").through(client)
            await topic.send_many(*({"id": one, "body": 1, "delay": "20h"} for one in IDS))
            for lane in NAMES.each_lane:
                await own.amqp.until_count(lane.slot("hours", 19), 1)
            await topic.send_many(*({"id": f"{at}", "body": 1, "delay": "10h"} for at in range(60)))
            for lane in NAMES.each_lane:
                count = sum(NAMES.lane_for(f"{at}") == lane for at in range(60))
                await own.amqp.until_count(lane.slot("hours", 9), count)
    finally:
        await asyncio.to_thread(alone.stop)


@pytest.mark.parametrize("message_id", [OF_LANE[lane] for lane in OF_LANE])
async def test_every_lane_releases_leases_returns_moves_and_deletes(own: Own, message_id: str) -> None:
    topic = own.topic.beside("life")
    await topic.send(id=message_id, delay="500ms")
    pulled = await topic.pull_one(lease="1s")
    assert (pulled["id"], pulled["attempts"]) == (message_id, 1)
    pulled = await topic.pull_one()
    assert (pulled["id"], pulled["attempts"]) == (message_id, 2)
    await topic.nack(pulled, delay="300ms")
    pulled = await topic.pull_one()
    assert (pulled["id"], pulled["attempts"]) == (message_id, 3)
    await topic.ack(pulled)

    await topic.send(id=f"moved-{message_id}", delay="2h")
    await topic.move(f"moved-{message_id}", delay="300ms")
    await topic.send(id=f"deleted-{message_id}", delay="300ms")
    await topic.delete(f"deleted-{message_id}")
    pulled = await topic.pull_one()
    assert pulled["id"] == f"moved-{message_id}"
    await topic.ack(pulled)
    await topic.send(id="marker", delay="900ms")
    assert await topic.drain("marker") == []
    assert await topic.state(f"deleted-{message_id}") == "deleted"


async def test_amqp_client_may_choose_a_lane(own: Own) -> None:
    topic = own.topic.beside("client")
    await topic.put_policy()
    for entry in ("delay", "delay.lane2"):
        await own.amqp.publish(entry, f"0.0.0.0.0.0.5.{topic.name}", message_id=OF_LANE[1])
        pulled = await topic.pull_one()
        assert (pulled["id"], pulled["attempts"]) == (OF_LANE[1], 1)
        await topic.nack(pulled, delay="300ms")
        pulled = await topic.pull_one()
        assert (pulled["id"], pulled["attempts"]) == (OF_LANE[1], 2)
        await topic.ack(pulled)


async def test_message_that_misses_a_slot_of_its_lane_is_on_time(own: Own) -> None:
    topic = own.topic.beside("misses")
    await topic.put_policy()
    lane = NAMES.each_lane[1]
    missing = lane.slot("tenths", 7)
    await own.amqp.delete_queue(missing)
    await own.amqp.publish(lane.entry, f"0.0.0.0.0.1.7.{topic.name}", message_id=OF_LANE[1])
    assert (await topic.pull_one())["id"] == OF_LANE[1]
    assert await own.amqp.count(missing) is not None


async def test_returned_message_is_retried_in_its_lane(own: Own) -> None:
    topic = own.topic.beside("back")
    for message_id in IDS:
        await topic.send(id=message_id, delay="100ms")
        async with own.amqp.consume(topic.ready_queue, prefetch=1) as arrivals:
            await (await arrivals.get()).reject(requeue=False)
        pulled = await topic.pull_one()
        assert (pulled["id"], pulled["attempts"]) == (message_id, 2)
        await topic.ack(pulled)


async def test_names_of_a_lane_are_those_its_bridge_declares(own: Own, rabbit: RabbitNode) -> None:
    found = {one["name"] for one in await management(rabbit, "GET", f"queues/{own.vhost}?columns=name")}
    of_topics = {name for name in found if name.startswith(("ready.", "dead."))}
    assert len(found - of_topics) == 3 * 178 + 6
    assert {lane.checkpoint for lane in NAMES.each_lane} < found


async def test_fewer_lanes_lose_no_waiting_message(own: Own, rabbit: RabbitNode, local_dir: Path) -> None:
    """Stops the bridge of the other tests, so it is the last one."""
    topic, direct = own.topic.beside("fewer"), own.topic.beside("direct")
    await direct.put_policy(release="direct")
    await topic.send_many(*({"id": one, "body": 1, "delay": "4s"} for one in IDS))
    await direct.send_many(*({"id": one, "body": 1, "delay": "6s"} for one in IDS))
    await asyncio.to_thread(own.bridge.stop)
    for queue in ("delay.lane1.checkpoint", "delay.lane2.checkpoint"):
        await own.amqp.until_consumers(queue, 0)
    with bridge_beside(own, local_dir / "fewer", ONE) as fewer:
        async with httpx2.AsyncClient(base_url=fewer.url, timeout=90) as client:
            # The topic is unbound in the left lanes too, so a delete is final.
            await direct.through(client).put_policy(release="checked")
            await direct.through(client).delete(OF_LANE[2])
            assert set(await topic.through(client).pull_ids(3)) == IDS
            left = IDS - {OF_LANE[2]}
            assert set(await direct.through(client).pull_ids(2)) == left
            await topic.through(client).send(id=OF_LANE[1], delay="15h")
            await own.amqp.until_count("delay.000d-14h", 1)
    bindings = await management(rabbit, "GET", f"queues/{own.vhost}/{direct.ready_queue}/bindings")
    assert {one["source"] for one in bindings} == {"", "delay.ready"}
