"""Tests topics with direct release: due messages bypass the checkpoint, and all other copies pass it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

from bridge.local.rabbitmq import RabbitNode
from bridge.local.redis import RedisNode
from tests.integration.amqp import Amqp, header
from tests.integration.dead_letters import until_dead
from tests.integration.own import own_bridge
from tests.integration.topic import Topic, due_ms
from tests.waiting import pause

NowMs = Callable[[], Awaitable[int]]


async def test_direct_topic_delivers_while_every_bridge_is_down(
    rabbit: RabbitNode, redis_node: RedisNode, local_dir: Path, store_now_ms: NowMs
) -> None:
    async with own_bridge(rabbit, redis_node.url, local_dir) as own:
        await own.topic.put_policy(release="direct")
        sent = await own.topic.send({"order": 1}, id="m-1", delay="2s")
        own.bridge.kill()
        message = await own.amqp.take(own.topic.ready_queue)
        assert not own.bridge.running
        assert await store_now_ms() >= due_ms(sent)
        assert (message.message_id, message.body) == ("m-1", b'{"order":1}')
        assert header(message, "x-delay-attempt") == 1
        assert await own.amqp.count("delay.checkpoint") == 0


async def test_direct_topic_rounds_delays_up_and_is_not_early(topic: Topic, amqp: Amqp, store_now_ms: NowMs) -> None:
    await topic.put_policy(release="direct")
    for delay_ms in (1, 201):
        sent = await topic.send(delay=delay_ms)
        message = await amqp.take(topic.ready_queue)
        assert await store_now_ms() >= due_ms(sent)
        assert (message.message_id, header(message, "x-delay-due")) == (sent["id"], due_ms(sent))


async def test_direct_topic_honours_deletes_and_moves_for_http_consumers(topic: Topic, store_now_ms: NowMs) -> None:
    await topic.put_policy(release="direct")
    await topic.send(id="doomed", delay=300)
    await topic.send(id="later", delay=300)
    await topic.send(id="marker", delay=700)
    await topic.delete("doomed")
    moved = await topic.move("later", delay=1_200)
    assert await topic.drain("marker") == []
    later = await topic.pull_one()
    assert (later["id"], later["attempts"]) == ("later", 1)
    assert await store_now_ms() >= due_ms(moved)


async def test_direct_topic_delivers_a_message_past_its_ttl_to_amqp_consumers_only(
    topic: Topic, amqp: Amqp, store_now_ms: NowMs
) -> None:
    await topic.put_policy(release="direct")
    sent = [await topic.send(id=one, delay=delay, ttl=100) for one, delay in (("delivered", 100), ("pulled", 200))]
    expire_ms = [due_ms({"due_at": one["expires_at"]}) for one in sent]
    while await amqp.count(topic.ready_queue) != 2 or await store_now_ms() <= expire_ms[1]:
        await pause()
    message = await amqp.take(topic.ready_queue)
    assert (message.message_id, header(message, "x-delay-expires")) == ("delivered", expire_ms[0])
    assert await topic.pull(wait=0) == []
    assert await topic.state("pulled") == "expired"


async def test_direct_topic_ends_a_message_that_is_due_at_once_after_its_ttl(topic: Topic, amqp: Amqp) -> None:
    await topic.put_policy(release="direct")
    await topic.send(id="m-1", ttl=200)
    await topic.until_state("m-1", "expired")
    await topic.send(id="marker")
    assert (await amqp.take(topic.ready_queue)).message_id == "marker"


async def test_lease_of_a_direct_topic_ends_at_the_checkpoint(topic: Topic, amqp: Amqp) -> None:
    await topic.put_policy(release="direct")
    await topic.send(id="m-1", delay=200)
    first = await topic.pull_one(lease="3s")
    extended = await topic.extend(first, "6s")
    await topic.send(id="marker", delay="3.4s")
    # A lease copy that bypassed the checkpoint would be pulled before the marker.
    assert await topic.drain("marker") == []
    second = await topic.pull_one()
    assert (second["attempts"], due_ms(second)) == (2, due_ms(first))
    assert due_ms({"due_at": second["lease_until"]}) > due_ms({"due_at": extended["lease_until"]})


async def test_failures_of_a_direct_topic_are_counted_and_dead_lettered(
    topic: Topic, amqp: Amqp, store_now_ms: NowMs
) -> None:
    await topic.put_policy(release="direct", backoff=[400], max_retry=1)
    await topic.send(id="m-1", delay=200)
    async with amqp.consume(topic.ready_queue) as arrivals:
        message = await arrivals.get()
        refused_ms = await store_now_ms()
        await message.reject(requeue=False)
        message = await arrivals.get()
        assert header(message, "x-delay-attempt") == 2
        assert await store_now_ms() >= refused_ms + 400
        await message.reject(requeue=False)
    await until_dead(topic, "m-1")
    assert (await amqp.take(topic.dead_queue)).message_id == "m-1"


async def test_waiting_messages_of_a_topic_put_to_direct_are_not_early_and_a_delete_stays_final(
    topic: Topic, amqp: Amqp, store_now_ms: NowMs
) -> None:
    await topic.send(id="doomed", delay="1.5s")
    await topic.delete("doomed")
    sent = {f"m-{at}": await topic.send(id=f"m-{at}", delay=1_500 + 17 * at) for at in range(10)}
    await topic.put_policy(release="direct")
    arrived_ms = {}
    async with amqp.consume(topic.ready_queue) as arrivals:
        for _ in sent:
            message = await arrivals.get()
            arrived_ms[message.message_id] = await store_now_ms()
            await message.ack()
    assert arrived_ms.keys() == sent.keys()
    early_ms = {one: due_ms(message) - arrived_ms[one] for one, message in sent.items()}
    assert max(early_ms.values()) <= 0, early_ms
    assert await amqp.get(topic.ready_queue) is None


async def test_topic_set_back_to_checked_honours_deletes_for_amqp_consumers(topic: Topic, amqp: Amqp) -> None:
    await topic.put_policy(release="direct")
    await topic.send(id="doomed", delay="1.5s")
    await topic.put_policy(release="checked")
    await topic.delete("doomed")
    await topic.send(id="marker", delay="1.6s")
    assert (await amqp.take(topic.ready_queue)).message_id == "marker"
