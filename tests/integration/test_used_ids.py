"""Tests that an id may be used again: by an AMQP client whose earlier message was consumed, or ended."""

from __future__ import annotations

import pytest

from tests.integration.amqp import Amqp
from tests.integration.topic import Topic
from tests.waiting import pause


async def publish(amqp: Amqp, topic: Topic, body: bytes) -> None:
    await amqp.publish("delay", f"0.0.0.0.0.0.1.{topic.name}", body, message_id="m-1", content_type="application/json")


async def reject_and_ack(amqp: Amqp, topic: Topic) -> bytes:
    """Rejects the first delivery of the topic and acknowledges its retry, without telling the bridge."""
    async with amqp.consume(topic.ready_queue, prefetch=1) as arrivals:
        await (await arrivals.get()).reject()
        retried = await arrivals.get()
        await retried.ack()
        return retried.body


@pytest.mark.parametrize("release", ["checked", "direct"])
async def test_id_of_an_acked_message_can_be_published_again_and_pulled(topic: Topic, amqp: Amqp, release: str) -> None:
    await topic.put_policy(release=release)
    for body in (b"1", b"2", b"3"):
        await publish(amqp, topic, body)
        pulled = await topic.pull_one()
        assert (pulled["id"], pulled["body"], pulled["attempts"]) == ("m-1", int(body), 1)
        assert (await topic.ack(pulled))["state"] == "acked"


@pytest.mark.parametrize("release", ["checked", "direct"])
async def test_id_of_a_message_that_was_rejected_and_consumed_can_be_published_again(
    topic: Topic, amqp: Amqp, release: str
) -> None:
    """The bridge does not know that an AMQP consumer has acknowledged the first message."""
    await topic.put_policy(release=release)
    await publish(amqp, topic, b"1")
    assert await reject_and_ack(amqp, topic) == b"1"
    await publish(amqp, topic, b"2")
    pulled = await topic.pull_one()
    assert (pulled["id"], pulled["body"]) == ("m-1", 2)
    # The body that Redis keeps is that of the second message.
    await topic.nack(pulled, delay=0)
    assert (await topic.pull_one())["body"] == 2


async def test_id_of_a_message_that_an_amqp_consumer_acknowledged_can_be_published_again_and_rejected(
    topic: Topic, amqp: Amqp
) -> None:
    await topic.put_policy(release="direct")
    for body in (b"1", b"2"):
        await publish(amqp, topic, body)
        assert await reject_and_ack(amqp, topic) == body


async def test_message_of_a_client_that_waits_beside_a_ready_one_is_delivered_although_that_one_is_deleted(
    topic: Topic, amqp: Amqp
) -> None:
    await topic.send(1, id="m-1")
    await topic.call("POST", "/pause")
    await publish(amqp, topic, b"2")
    await amqp.publish("delay", f"0.0.0.0.0.0.2.{topic.name}", b"3", message_id="m-2")
    while (await topic.client.get(f"/v1/topics/{topic.name}/messages/m-2")).status_code == 404:
        await pause()
    assert await topic.state("m-1") == "ready"
    await topic.delete("m-1")
    await topic.call("POST", "/resume")
    assert {one["body"] for one in [await topic.pull_one() for _ in range(2)]} == {2, 3}
