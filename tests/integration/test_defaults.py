"""Tests the back-off of topics that set none, on a bridge with the default one, and the time to live of a setting.

Each retry is moved to now once its moment is known, so no test waits for one.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import aio_pika
import pytest_asyncio

from bridge.local.rabbitmq import RabbitNode
from bridge.local.redis import RedisNode
from bridge.settings.settings import Settings
from tests.integration.amqp import header
from tests.integration.own import Own, own_bridge
from tests.integration.topic import due_ms

NowMs = Callable[[], Awaitable[int]]

DEFAULT_FIRST = f"{Settings.model_fields['backoff_first'].default}ms"
"""The default itself: a test's bridge has another one unless it asks for this."""

BACK_OFFS_MS = (1_000, 2_000, 4_000)
JITTER = 1.25
TTL_MS = 7_200_000


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def started(rabbit: RabbitNode, redis_node: RedisNode, local_dir: Path) -> AsyncIterator[Own]:
    further = {"BRIDGE_BACKOFF_FIRST": DEFAULT_FIRST, "BRIDGE_TTL": "2h"}
    async with own_bridge(rabbit, redis_node.url, local_dir, **further) as own:
        yield own


@pytest_asyncio.fixture
async def own(started: Own) -> Own:
    return started.with_fresh_topic()


async def test_four_nacks_without_a_delay_take_seconds_to_make_a_dead_letter(own: Own, store_now_ms: NowMs) -> None:
    topic = own.topic
    await topic.send(id="m-1")
    for attempt, backoff_ms in enumerate(BACK_OFFS_MS, start=1):
        leased = await topic.pull_one()
        assert leased["attempts"] == attempt
        before_ms = await store_now_ms()
        nacked = await topic.nack(leased)
        waits_at_most_ms = backoff_ms * JITTER
        assert before_ms + backoff_ms <= due_ms(nacked) <= await store_now_ms() + waits_at_most_ms
        await topic.move("m-1", delay=0)
    dead = await topic.nack(await topic.pull_one())
    assert (dead["state"], dead["attempts"]) == ("dead", 4)


async def test_rejected_message_waits_for_the_default_back_off_too(own: Own, store_now_ms: NowMs) -> None:
    topic = own.topic
    await topic.send(id="m-1", delay=100)
    async with own.amqp.consume(topic.ready_queue) as arrivals:
        for backoff_ms in BACK_OFFS_MS[:2]:
            refused_ms = await store_now_ms()
            message = await arrivals.get()
            await message.reject(requeue=False)
            waiting = await topic.until_state("m-1", "waiting")
            assert due_ms(waiting) >= refused_ms + backoff_ms
            assert due_ms(waiting) <= await store_now_ms() + backoff_ms * JITTER
            await topic.move("m-1", delay=0)
        last = await arrivals.get()
        assert header(last, "x-delay-attempt") == 3
        await last.ack()


async def test_delay_of_the_nack_and_an_explicit_back_off_count_first(own: Own, store_now_ms: NowMs) -> None:
    topic = own.topic
    await topic.send(id="m-1")
    asked_ms = await store_now_ms()
    assert due_ms(await topic.nack(await topic.pull_one(), delay=0)) <= await store_now_ms()
    await topic.put_policy(backoff=[0])
    assert due_ms(await topic.nack(await topic.pull_one())) <= await store_now_ms()
    await topic.call("PATCH", body={"backoff": None})
    assert due_ms(await topic.nack(await topic.pull_one())) >= asked_ms + BACK_OFFS_MS[2]


async def test_message_whose_lease_ends_comes_again_without_a_back_off(own: Own, store_now_ms: NowMs) -> None:
    topic = own.topic
    await topic.send(id="m-1")
    leased = await topic.pull_one(lease="1s")
    again = await topic.pull_one()
    assert again["attempts"] == 2
    # The consumer has had the lease already. So this comes before any back-off after the lease's end.
    assert await store_now_ms() < due_ms({"due_at": leased["lease_until"]}) + BACK_OFFS_MS[1]


async def test_topic_shows_which_values_count_and_which_are_defaults(own: Own) -> None:
    topic = own.topic
    await topic.put_policy(max_retry=7)
    default = {"first_ms": 1_000, "factor": 2.0, "max_ms": 300_000}
    shown = await topic.info()
    assert (shown["policy"]["max_retry"], shown["policy"]["backoff"]) == (7, None)
    assert shown["effective"] == {
        "max_retry": 7,
        "ttl_ms": TTL_MS,
        "lease_ms": 30_000,
        "backoff": default,
        "jitter": 0.25,
        "defaults": ["ttl_ms", "lease_ms", "backoff"],
    }
    await topic.put_policy(ttl="1h", lease="1m", backoff=[0])
    shown = await topic.info()
    assert shown["effective"] == {
        "max_retry": 3,
        "ttl_ms": 3_600_000,
        "lease_ms": 60_000,
        "backoff": {"steps_ms": [0]},
        "jitter": 0.0,
        "defaults": ["max_retry"],
    }


async def test_setting_gives_messages_a_time_to_live_unless_a_wire_sends_them(own: Own) -> None:
    topic = own.topic
    sent = await topic.send(id="m-1", delay="1h")
    assert due_ms({"due_at": sent["expires_at"]}) == due_ms(sent) + TTL_MS
    assert (await topic.send(id="m-2", delay="1h", ttl="1m"))["expires_at"] != sent["expires_at"]
    async with own.amqp.connection.channel() as channel:
        ingress = await channel.get_exchange("delay.in", ensure=False)
        await ingress.publish(aio_pika.Message(b"1", message_id="m-3", headers={"x-delay": 3_600_000}), topic.name)
    found = await topic.until_found("m-3")
    assert due_ms({"due_at": found["expires_at"]}) == due_ms(found) + TTL_MS

    job = {"topic": topic.name, "id": topic.name, "delay": 3_600, "ttr": 60, "body": "1"}
    assert (await topic.client.post("/push", json=job)).json()["code"] == 0
    assert (await topic.look(topic.name))["expires_at"] is None  # the original keeps a job for ever


async def test_nack_of_camellia_is_ready_at_once_as_in_the_original(own: Own, store_now_ms: NowMs) -> None:
    topic = own.topic
    await topic.send(id="m-1")
    await topic.pull_one()
    acked = await topic.client.post(
        "/camellia/delayQueue/ackMsg", data={"topic": topic.name, "msgId": "m-1", "ack": "false"}
    )
    assert acked.json()["code"] == 200
    again = await topic.pull_one()
    assert (again["attempts"], due_ms(again) <= await store_now_ms()) == (2, True)
