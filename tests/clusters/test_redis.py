"""Tests a bridge on a Redis Cluster, where the loss of a master affects only its own topics."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import pytest_asyncio
from aio_pika import Message
from redis.asyncio import Redis

from bridge.local.errors import LocalError
from bridge.local.ports import free_ports
from bridge.local.rabbitmq import RabbitNode
from bridge.local.redis import RedisNode
from bridge.local.redis_cluster import RedisCluster
from bridge.store.client import Store
from bridge.store.keys import Keys
from bridge.store.messages.records import Records
from tests.forked_bridge import ForkedBridge
from tests.integration.dead_letters import dead_ids, make_dead
from tests.integration.own import Own, own_bridge
from tests.integration.topic import Topic, due_ms
from tests.matrix.servers import Servers
from tests.records import claim, draft
from tests.replies import read_each
from tests.waiting import pause

IN_FOUR_BUCKETS = pytest.mark.parametrize("own", [{"BRIDGE_INDEX_BUCKETS": "4"}], indirect=True, ids=["4 buckets"])

_MANY = 300  # more than a batch of acks or of messages

SLOT_OF_FOUR_SECONDS = "delay.000d-00h-00m-03s"  # holds a message with a delay of 4 s, which aims 100-200 ms short


@pytest.fixture(scope="module")
def cluster(local_dir: Path, servers: Servers) -> Iterator[RedisCluster]:
    """A private cluster, as tests of this file kill masters."""
    folder, installed = local_dir / "redis-cluster", servers.redis_installation
    with RedisCluster(folder, installation=installed, program=servers.redis_program) as cluster:
        yield cluster


@pytest_asyncio.fixture
async def own(
    rabbit: RabbitNode,
    cluster: RedisCluster,
    local_dir: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> AsyncIterator[Own]:
    """A bridge on the cluster that audits every second. The parameter has further settings."""
    monkeypatch.setenv("BRIDGE_AUDIT_GRACE", "1s")
    monkeypatch.setenv("BRIDGE_AUDIT_EVERY", "1s")
    async with own_bridge(rabbit, cluster.url, local_dir, **getattr(request, "param", {})) as own:
        yield own


def prefix(own: Own) -> str:
    return own.bridge.environment()["BRIDGE_REDIS_PREFIX"]


def topic_on(node: RedisNode, own: Own, cluster: RedisCluster) -> Topic:
    """An unused topic whose keys live on the node."""
    names = (f"{own.topic.name}.{uuid4().hex[:8]}" for _ in count())
    return Topic(own.topic.client, next(name for name in names if cluster.holder(name) is node))


def topic_on_all(own: Own, cluster: RedisCluster) -> Topic:
    """An unused topic with a bucket on every node."""
    names = (f"{own.topic.name}.{uuid4().hex[:8]}" for _ in count())
    nodes = set(cluster.nodes)
    spread = (name for name in names if {cluster.holder(f"{name}:{bucket}") for bucket in range(4)} == nodes)
    return Topic(own.topic.client, next(spread))


async def records_on(node: RedisNode, own: Own) -> list[str]:
    return sorted(key.decode() for key in await command(node, "KEYS", f"{prefix(own)}/*/m/*"))


async def command(node: RedisNode, *words: Any) -> Any:
    async with Redis.from_url(node.url) as redis:
        return await redis.execute_command(*words)  # type: ignore[no-untyped-call]


async def move_slot(tag: str, holder: RedisNode, target: RedisNode, cluster: RedisCluster) -> None:
    """Moves the slot of the tag with its keys to the target, as an operator's resharding does."""
    slot = await command(target, "CLUSTER", "KEYSLOT", tag)
    former, owner = await command(holder, "CLUSTER", "MYID"), await command(target, "CLUSTER", "MYID")
    await command(target, "CLUSTER", "SETSLOT", slot, "IMPORTING", former)
    await command(holder, "CLUSTER", "SETSLOT", slot, "MIGRATING", owner)
    while keys := await command(holder, "CLUSTER", "GETKEYSINSLOT", slot, 100):
        await command(holder, "MIGRATE", "127.0.0.1", target.port, "", 0, 5_000, "KEYS", *keys)
    for node in sorted(cluster.nodes, key=lambda node: node is not target):
        await command(node, "CLUSTER", "SETSLOT", slot, "NODE", owner)


@pytest.mark.parametrize("protocol", [2, 3])
async def test_every_answer_of_a_cluster_is_read(cluster: RedisCluster, protocol: int) -> None:
    await read_each(cluster.url, protocol)


@asynccontextmanager
async def always_ready(own: Own) -> AsyncIterator[None]:
    """Asserts that the health is 200 all the time."""
    refusals: list[str] = []

    async def ask() -> None:
        while True:
            answer = await own.topic.client.get("/health/ready")
            if answer.status_code != 200:
                refusals.append(answer.text)
            await pause()

    asking = asyncio.create_task(ask())
    try:
        yield
    finally:
        asking.cancel()
        await asyncio.wait([asking])
    assert asking.cancelled(), asking.exception()
    assert refusals == []


async def test_topics_on_every_master_work_like_on_one_server(own: Own, cluster: RedisCluster) -> None:
    topics = [topic_on(node, own, cluster) for node in cluster.nodes]
    ids = ["due", "gone", "lost"]
    for topic in topics:
        await topic.put_policy()  # declares their queues
    await asyncio.gather(*(topic.send(id="lost", delay="4s", labels={"part": "1"}) for topic in topics))
    async with own.amqp.connection.channel() as channel:
        purged = await (await channel.get_queue(SLOT_OF_FOUR_SECONDS, ensure=False)).purge()
    assert purged.message_count == len(topics)
    await asyncio.gather(*(topic.send(id=one, delay="1s") for topic in topics for one in ("due", "gone")))
    for topic in topics:
        assert (await topic.delete("gone"))["state"] == "deleted"
    for node, topic in zip(cluster.nodes, topics, strict=True):
        assert await records_on(node, own) == [f"{prefix(own)}/{{{topic.name}}}/m/{one}" for one in ids]
    listed = (await own.topic.client.get("/v1/topics")).json()["topics"]
    assert sorted(one["topic"] for one in listed) == sorted(topic.name for topic in topics)
    for topic in topics:
        # The audit sends the purged messages again.
        assert await topic.pull_ids(2) == ["due", "lost"]
        found = (await topic.call("GET", "/messages"))["items"]
        assert {one["id"]: one["state"] for one in found} == {"due": "acked", "gone": "deleted", "lost": "acked"}
    answer = await own.topic.client.get("/v1/messages", params={"label": "part:1", "state": "acked"})
    assert sorted(one["topic"] for one in answer.json()["items"]) == sorted(topic.name for topic in topics)
    # The actions on all topics are on one master.
    actions = (await own.topic.client.get("/v1/actions")).json()["items"]
    assert [one["topic"] for one in actions] == [topic.name for topic in reversed(topics)]


async def test_killed_master_stops_only_its_topics_until_it_is_back(own: Own, cluster: RedisCluster) -> None:
    # The victim also holds the list of topics.
    victim = cluster.holder(f"{prefix(own)}/topics")
    living = [topic_on(node, own, cluster) for node in cluster.nodes if node is not victim]
    dead = topic_on(victim, own, cluster)
    waiting = topic_on(victim, own, cluster)
    await waiting.put_policy()
    for topic in (dead, *living):
        await topic.put_policy()
        await topic.send(id="due", delay="3s")
    # Calls about the other masters' topics are answered all the time.
    async with always_ready(own):
        await asyncio.to_thread(victim.kill)
        await dead.send(id="refused", expect=503)
        await dead.call("POST", "/pull", {"wait": 0}, expect=503)
        await dead.look("due", expect=503)
        for topic in living:
            await topic.send(id="sent", delay="3s")
            assert await topic.pull_ids(2) == ["due", "sent"]
            unused = topic_on(cluster.holder(topic.name), own, cluster)
            await unused.send(id="sent")
            assert await unused.pull_ids(1) == ["sent"]
        # Acks and messages of AMQP clients for its topics wait, and hold up no others.
        async with own.amqp.connection.channel() as channel:
            for name in ("delay.done", "delay.in"):
                entry = await channel.get_exchange(name, ensure=False)
                for number in range(_MANY):
                    message = Message(b"", headers={"x-delay": 3_600_000}, message_id=f"{name}-{number}")
                    await entry.publish(message, waiting.name)
        await living[0].send(id="acked")
        await own.amqp.publish("delay.done", living[0].name, b"", message_id="acked")
        await own.amqp.publish("delay.in", living[0].name, headers={"x-delay": 3_600_000}, message_id="passes")
        while await living[0].state("acked") != "acked":
            await pause()
        while (await living[0].call("GET", "/messages"))["items"][-1]["id"] != "passes":
            await pause()
        health = (await own.topic.client.get("/health/ready")).json()
        assert health["status"] == "degraded"
        (finding,) = health["findings"]
        assert finding["severity"] == "warning"
        assert re.match(rf"Redis at 127.0.0.1:{victim.port} .*calls about its topics are refused", finding["says"])
        await asyncio.to_thread(cluster.start)
        assert await dead.pull_ids(1) == ["due"]
        await dead.send(id="taken")
        assert await dead.pull_ids(1) == ["taken"]
        while (await waiting.info())["counts"]["waiting"] < _MANY:
            await pause()
    async with asyncio.timeout(5):
        while (await own.topic.client.get("/health/ready")).json()["status"] != "ok":
            await pause()
    names = [one["topic"] for one in (await own.topic.client.get("/v1/topics")).json()["topics"]]
    assert {dead.name, *(topic.name for topic in living)} <= set(names)


@IN_FOUR_BUCKETS
async def test_killed_master_of_a_bucket_holds_up_no_amqp_messages_of_others(own: Own, cluster: RedisCluster) -> None:
    topic = topic_on_all(own, cluster)
    await topic.put_policy()
    needed = [cluster.holder(topic.name), cluster.holder(f"{prefix(own)}/topics")]
    victim = next(node for node in cluster.nodes if node not in needed)
    buckets = Keys(prefix(own), 4)
    living: list[str] = []
    waiting: list[str] = []
    for number in range(40):
        one = f"m-{number}"
        holder = cluster.holder(f"{topic.name}:{buckets.bucket(one)}")
        (waiting if holder is victim else living).append(one)
    assert waiting
    await asyncio.to_thread(victim.kill)
    for one in (*waiting, *living):
        await own.amqp.publish("delay.in", topic.name, headers={"x-delay": 3_600_000}, message_id=one)
    for one in living:
        await topic.until_found(one)
    await topic.look(waiting[0], expect=503)
    await asyncio.to_thread(cluster.start)
    while (await topic.info())["counts"]["waiting"] < len(living) + len(waiting):
        await pause()


async def test_call_of_a_moved_slot_is_run_by_its_new_master(own: Own, cluster: RedisCluster) -> None:
    name = topic_on(cluster.nodes[0], own, cluster).name
    records = Records(keys=Keys("moved"), retention_ms=1_000, tombstone_ms=1_000)
    store = Store(cluster.url, timeout_ms=5_000)
    try:
        assert (await store.run([records.look(name, "m-1")]))[0].verdict == "unknown"
        target = cluster.nodes[1]
        await move_slot(name, cluster.nodes[0], target, cluster)
        scheduling = records.schedule(draft(topic=name, id="m-1"), claim(id="m-1"))
        scheduled, looked = await store.run_both(scheduling, records.look(name, "m-1"))
        assert scheduled.verdict == "created"
        assert looked.verdict == "unknown"  # the schedule is not confirmed yet
        assert await command(target, "EXISTS", f"moved/{{{name}}}/m/m-1") == 1
    finally:
        await store.close()


async def test_moved_slots_leave_a_bridge_ready(own: Own, cluster: RedisCluster) -> None:
    former, target, _ = cluster.nodes
    topic = topic_on(former, own, cluster)
    await topic.put_policy()
    probes = [f":probe:{number}" for number in range(40)]
    moved = [topic.name, *(tag for tag in probes if cluster.holder(tag) is former)]
    async with always_ready(own):
        for tag in moved:
            await move_slot(tag, former, target, cluster)
        await topic.send(id="behind")
        for tag in moved:
            await move_slot(tag, target, former, cluster)


@IN_FOUR_BUCKETS
async def test_topic_in_buckets_on_every_master_works_as_one_topic(own: Own, cluster: RedisCluster) -> None:
    topic = topic_on_all(own, cluster)
    await topic.put_policy()  # declares its queues
    ids = [f"m-{number:02}" for number in range(60)]
    lost = ids[::3]
    await topic.send_many(*({"id": one, "body": one, "delay": "4s"} for one in lost))
    async with own.amqp.connection.channel() as channel:
        purged = await (await channel.get_queue(SLOT_OF_FOUR_SECONDS, ensure=False)).purge()
    # One bundle from each node. Two buckets of one node may be due in different tenths of a second, and then have two.
    assert purged.message_count in (len(cluster.nodes), 4)
    later = [one for one in ids if one not in lost]
    await topic.send_many(*({"id": one, "body": one, "delay": "1h"} for one in later))
    records = [await records_on(node, own) for node in cluster.nodes]
    assert all(records)
    assert sorted(key.rpartition("/")[2] for on_one in records for key in on_one) == ids

    # The audit sends the purged messages of every master again.
    assert sorted(await topic.pull_ids(len(lost))) == lost

    found: list[Any] = []
    cursor = ""
    while cursor is not None:
        page = await topic.call("GET", f"/messages?limit=7{cursor and '&cursor='}{cursor}")
        found += page["items"]
        cursor = page["next_cursor"]
    assert sorted(one["id"] for one in found) == ids
    order = [(due_ms(one), one["id"]) for one in found]
    assert order == sorted(order)
    counts = (await topic.info())["counts"]
    assert (counts["waiting"], counts["acked"]) == (len(later), len(lost))

    await topic.call("DELETE", "?force=true")
    assert {(await topic.look(one))["state"] for one in later} == {"deleted"}
    await topic.call("GET", expect=404)


@IN_FOUR_BUCKETS
async def test_dead_letters_whose_ids_were_taken_are_replayed_from_each_bucket(own: Own, cluster: RedisCluster) -> None:
    topic = topic_on_all(own, cluster)
    ids = [f"m-{number}" for number in range(8)]
    await make_dead(topic, *ids)
    await topic.send_many(*({"id": one, "body": one, "delay": "1h"} for one in ids))
    aside = await dead_ids(topic)
    assert sorted(one.partition("~")[0] for one in aside) == ids
    assert await topic.call("POST", "/dead/replay") == {"replayed": len(ids)}
    assert sorted(await topic.pull_ids(len(ids))) == sorted(aside)


@IN_FOUR_BUCKETS
@pytest.mark.expects_log("service.refused")
async def test_bridge_with_another_number_of_buckets_refuses_to_start(own: Own, local_dir: Path) -> None:
    settings = {**own.settings, "BRIDGE_INDEX_BUCKETS": "3"}
    other = ForkedBridge(local_dir / own.vhost / "other" / "bridge.log", free_ports(1)[0], settings)
    with pytest.raises(LocalError, match="ended with code 3"):
        await asyncio.to_thread(other.start)
    refused = [line for line in other.log_file.read_text().splitlines() if "service.refused" in line]
    assert ["in 4 buckets, but BRIDGE_INDEX_BUCKETS is 3: set it to 4" in line for line in refused] == [True]
