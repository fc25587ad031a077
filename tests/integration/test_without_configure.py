"""Tests a bridge whose RabbitMQ user may write and read, and not configure, as docs/operating/security.md says."""

from __future__ import annotations

import asyncio
import re
import shlex
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import aio_pika
import httpx2
import pytest_asyncio

from bridge.local.ports import free_ports
from bridge.local.redis import RedisNode
from tests.command import command
from tests.docs.documents import text
from tests.forked_bridge import PATIENT, ForkedBridge
from tests.integration.amqp import Amqp, header
from tests.integration.topic import Json, Topic
from tests.rabbit_users import carry_out, delete_user
from tests.shared_servers import SharedRabbit, delete_vhost, make_vhost, vhost_url
from tests.waiting import pause
from topology import plan
from topology.names import Names

CHECKPOINT_PREFETCH = 30

_SECTION = text("docs/operating/security.md").partition("## A bridge without the right to configure")[2]
_USER_COMMANDS = re.findall(r"^rabbitmqctl (.+)$", _SECTION.partition("\n## ")[0], flags=re.MULTILINE)
_DECLARE = re.search(r"^BRIDGE_AMQP_URL=\S+ delaybridge (topology .+)$", _SECTION, flags=re.MULTILINE)
assert _DECLARE
_DECLARE_COMMAND = _DECLARE[1]


@dataclass(frozen=True, kw_only=True)
class Limited:
    """A bridge without the right, an operator who has it, and the topic that the operator has declared."""

    bridge: ForkedBridge
    vhost: str
    amqp: Amqp  # of the operator
    topic: Topic

    async def declare(self, rabbit: SharedRabbit, topic: str) -> None:
        """Runs the documented command as the operator."""
        arguments = shlex.split(_DECLARE_COMMAND.replace("orders", topic))
        done = await command(*arguments, settings={"BRIDGE_AMQP_URL": vhost_url(rabbit, self.vhost)})
        assert done.exit_code == 0, done.output

    async def findings(self) -> list[Json]:
        """The findings of the bridge's last check. It is ready with any of them."""
        answer = await self.topic.client.get("/health/ready")
        assert answer.status_code == 200, answer.text
        findings: list[Json] = answer.json()["findings"]
        return findings


@pytest_asyncio.fixture(scope="module")
async def limited(rabbit: SharedRabbit, redis_node: RedisNode, local_dir: Path) -> AsyncIterator[Limited]:
    vhost = f"limited-{uuid4().hex[:12]}"
    user = f"bridge-{vhost}"
    await asyncio.to_thread(make_vhost, rabbit, vhost)
    for line in _USER_COMMANDS:
        of_user = (user if argument == "bridge" else argument for argument in shlex.split(line))
        await asyncio.to_thread(carry_out, rabbit, vhost, *of_user)
    settings = {
        "BRIDGE_AMQP_URL": f"amqp://{user}:SECRET@127.0.0.1:{rabbit.port}/{vhost}",
        "BRIDGE_REDIS_URL": redis_node.url,
        "BRIDGE_REDIS_PREFIX": vhost,
        "BRIDGE_VERIFY_EVERY": "1s",
        "BRIDGE_MANAGEMENT_URL": rabbit.management_url,
        "BRIDGE_CHECKPOINT_PREFETCH": str(CHECKPOINT_PREFETCH),
        **PATIENT,
    }
    bridge = ForkedBridge(local_dir / vhost / "bridge.log", free_ports(1)[0], settings)
    async with (
        httpx2.AsyncClient(base_url=bridge.url, timeout=90) as client,
        await aio_pika.connect(vhost_url(rabbit, vhost)) as connection,
    ):
        topic = Topic(client, "mails/own")
        own = Limited(bridge=bridge, vhost=vhost, amqp=Amqp(connection), topic=topic)
        await own.declare(rabbit, topic.name)
        await asyncio.to_thread(bridge.start)
        yield own
    await asyncio.to_thread(bridge.kill)
    await asyncio.to_thread(delete_user, rabbit, user)
    await asyncio.to_thread(delete_vhost, rabbit, vhost)


async def test_bridge_without_the_right_keeps_its_promises_on_declared_topics(limited: Limited) -> None:
    topic = limited.topic
    await topic.put_policy(max_retry=0)
    for name in ("moved", "deleted", "dies"):
        await topic.send(id=name, delay="1h")
    await topic.move("moved", delay=0)
    await topic.delete("deleted")
    await topic.ack(await topic.pull_one())
    await topic.move("dies", delay="500ms")
    await topic.nack(await topic.pull_one())
    await limited.amqp.until_count(topic.dead_queue, 1)
    await topic.call("POST", "/dead/dies/replay")
    await topic.ack(await topic.pull_one())
    await limited.amqp.publish("delay", f"0.0.0.0.0.0.1.{topic.name}", message_id="over-amqp")
    assert (await topic.pull_one(lease="10s"))["id"] == "over-amqp"
    await topic.put_policy(release="direct")
    await limited.amqp.publish("delay", f"0.0.0.0.0.0.1.{topic.name}", message_id="direct")
    assert (await limited.amqp.take(topic.ready_queue)).message_id == "direct"


async def test_unknown_topic_is_refused_until_somebody_declares_it(limited: Limited, rabbit: SharedRabbit) -> None:
    new = limited.topic.beside("new")
    refused = await new.send(id="m-1", expect=503)
    assert new.ready_queue in refused["detail"]
    assert "delaybridge topology" in refused["detail"]
    assert await limited.amqp.count(new.ready_queue) is None
    # Nothing was made, so nothing is missing.
    await new.call("GET", expect=404)
    await limited.declare(rabbit, new.name)
    await new.send(id="m-1")
    await new.ack(await new.pull_one())


async def test_missing_queue_of_one_topic_is_a_finding_that_names_it(limited: Limited, rabbit: SharedRabbit) -> None:
    gone = limited.topic.beside("gone")
    await limited.declare(rabbit, gone.name)
    await gone.put_policy()
    await limited.amqp.delete_queue(gone.ready_queue)
    # The management API shows that the queue's binding is missing too, which breaks a promise of this topic alone.
    while not (findings := await limited.findings()):
        await pause()
    (finding,) = findings
    assert finding["severity"] == "warning"
    assert finding["says"].startswith(f"the queue {gone.ready_queue} of the topic {gone.name} is missing: ")
    assert "ACCESS_REFUSED" in finding["says"]
    await limited.topic.send(id="other")
    await limited.topic.ack(await limited.topic.pull_one())
    await limited.declare(rabbit, gone.name)
    while await limited.findings():
        await pause()


async def test_topic_is_removed_once_somebody_has_deleted_its_queues(limited: Limited, rabbit: SharedRabbit) -> None:
    old = limited.topic.beside("old")
    await limited.declare(rabbit, old.name)
    await old.put_policy()
    assert "has to delete it" in (await old.call("DELETE", expect=503))["detail"]
    for queue in (old.ready_queue, old.dead_queue):
        await limited.amqp.delete_queue(queue)
    await old.call("DELETE")
    await old.call("GET", expect=404)


async def test_missing_object_is_a_finding_until_somebody_declares_it(limited: Limited, rabbit: SharedRabbit) -> None:
    slot = plan.slot(Names(), "hundreds-of-days", 9).queues[0].name
    while await limited.findings():  # those of an earlier test stay until the next check
        await pause()
    await limited.amqp.delete_queue(slot)
    # A busy machine may have findings of its own, such as a step of the clock.
    while not (found := [one["says"] for one in await limited.findings() if slot in one["says"]]):
        await pause()
    assert "delaybridge topology apply" in found[0]
    assert await limited.amqp.count(slot) is None
    await limited.declare(rabbit, limited.topic.name)
    while [one for one in await limited.findings() if slot in one["says"]]:
        await pause()


async def _publish(amqp: Amqp, exchange: str, key: str, count: int) -> None:
    async with amqp.connection.channel(on_return_raises=True) as channel:
        entry = await channel.get_exchange(exchange, ensure=False)
        for _ in range(count):
            await entry.publish(aio_pika.Message(b"x", delivery_mode=2), key, timeout=30)


async def test_messages_for_a_topic_that_nobody_declares_are_put_aside_and_stop_no_others(limited: Limited) -> None:
    """More than a batch of the ingress. It keeps none of them."""
    await asyncio.gather(*(_publish(limited.amqp, "delay.in", "refused/one", 100) for _ in range(3)))

    await limited.amqp.publish("delay.in", limited.topic.name, message_id="accepted")

    assert await limited.topic.pull_ids(1) == ["accepted"]
    put_aside = await limited.amqp.put_aside("ready.refused/one")
    assert "ACCESS_REFUSED" in header(put_aside, "x-delay-reason")
    await limited.amqp.until_count("delay.refused", 299)
    assert (await limited.topic.client.get("/health/ready")).status_code == 200


async def test_due_messages_of_a_topic_that_nobody_declares_wait_in_the_wheel_and_stop_no_others(
    limited: Limited,
) -> None:
    """There are more of them than a checkpoint holds."""
    await asyncio.gather(*(_publish(limited.amqp, "delay", "0.0.0.0.0.0.1.refused/two", 15) for _ in range(3)))

    await limited.amqp.publish("delay", f"0.0.0.0.0.0.1.{limited.topic.name}", message_id="due")

    assert await limited.topic.pull_ids(1) == ["due"]
    while (await limited.amqp.count("delay.000d-00h-00m-30s") or 0) <= CHECKPOINT_PREFETCH:
        await pause()
