"""Tests the ingress: AMQP clients give a delay in a header, and the message has its record at once."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from aio_pika import Message

from tests.integration.amqp import Amqp, header
from tests.integration.dead_letters import dead_letters, until_dead
from tests.integration.targets import opened
from tests.integration.topic import Json, Topic, due_ms
from tests.integration.written import WrittenValue, allow_written_values
from tests.waiting import pause

NowMs = Callable[[], Awaitable[int]]
DAY_MS = 86_400_000


async def publish(amqp: Amqp, topic: Topic, headers: Any, body: bytes = b'{"order":1}', **with_: Any) -> None:
    await amqp.publish("delay.in", topic.name, body, headers, **{"content_type": "application/json", **with_})


async def until_found(topic: Topic, message_id: str) -> Json:
    """Asks for the message until it has its record. The test's time limit ends the wait."""
    while True:
        answer = await topic.client.get(f"/v1/topics/{topic.name}/messages/{message_id}")
        if answer.status_code == 200:
            found: Json = answer.json()
            return found
        await pause()


_I = struct.pack


@pytest.mark.parametrize(
    ("value", "delay_ms", "delivered"),
    [
        (WrittenValue(b"b" + _I(">b", 100)), 100, -100),
        (WrittenValue(b"B" + _I(">B", 200)), 200, -200),
        (WrittenValue(b"s" + _I(">h", 300)), 300, -300),
        (WrittenValue(b"u" + _I(">H", 300)), 300, -300),
        (WrittenValue(b"I" + _I(">i", 300)), 300, -300),
        (WrittenValue(b"i" + _I(">I", 300)), 300, -300),
        (WrittenValue(b"l" + _I(">q", 300)), 300, -300),
        ("300", 300, -300),
        (0, 0, 0),
        (-300, 0, -300),
        (None, 0, None),
    ],
)
async def test_each_type_of_delay_waits_as_long(
    topic: Topic,
    amqp: Amqp,
    store_now_ms: NowMs,
    monkeypatch: pytest.MonkeyPatch,
    *,
    value: Any,
    delay_ms: int,
    delivered: int | None,
) -> None:
    allow_written_values(monkeypatch)
    before_ms = await store_now_ms()
    await publish(amqp, topic, {} if value is None else {"x-delay": value}, message_id="m-1")
    message = await amqp.take(topic.ready_queue)
    assert await store_now_ms() >= before_ms + delay_ms
    assert message.headers.get("x-delay") == delivered
    found = await until_found(topic, "m-1")
    assert due_ms(found) >= before_ms + delay_ms
    assert due_ms(found) - due_ms({"due_at": found["created_at"]}) == delay_ms


async def test_instant_is_kept_exactly(topic: Topic, amqp: Amqp, store_now_ms: NowMs) -> None:
    at_ms = await store_now_ms() + 700
    await publish(amqp, topic, {"x-deliver-at": at_ms}, message_id="m-1")
    message = await amqp.take(topic.ready_queue)
    assert await store_now_ms() >= at_ms
    assert header(message, "x-delay-due") == at_ms


async def test_sixty_days_wait_and_can_be_run_now(topic: Topic, amqp: Amqp) -> None:
    await publish(amqp, topic, {"x-delay": 60 * DAY_MS}, message_id="m-1")
    found = await until_found(topic, "m-1")
    assert found["state"] == "waiting"
    assert due_ms(found) - due_ms({"due_at": found["created_at"]}) == 60 * DAY_MS
    assert (await topic.info())["counts"]["waiting"] == 1
    await topic.move("m-1", delay=0)
    assert header(await amqp.take(topic.ready_queue), "x-delay") == -60 * DAY_MS


async def test_message_is_listed_moved_and_deleted_before_it_is_due(topic: Topic, amqp: Amqp) -> None:
    for message_id in ("m-1", "m-2"):
        await publish(amqp, topic, {"x-delay": 3_600_000}, message_id=message_id)
        await until_found(topic, message_id)
    listed = await topic.call("GET", "/messages?state=waiting")
    assert [item["id"] for item in listed["items"]] == ["m-1", "m-2"]
    await topic.delete("m-1")
    await topic.move("m-2", delay=100)
    pulled = await topic.pull_one()
    assert (pulled["id"], pulled["body"], pulled["headers"]) == ("m-2", {"order": 1}, {"x-delay": -3_600_000})
    assert await topic.state("m-1") == "deleted"


async def test_message_without_an_id_gets_one(topic: Topic, amqp: Amqp) -> None:
    await publish(amqp, topic, {"x-delay": 100})
    message = await amqp.take(topic.ready_queue)
    assert (await topic.look(message.message_id or ""))["body"] == {"order": 1}


async def test_two_messages_under_one_id_are_both_delivered(topic: Topic, amqp: Amqp) -> None:
    for at in range(3):
        await publish(amqp, topic, {"x-delay": 300}, b'{"at":%d}' % at, message_id="m-1")
    async with amqp.consume(topic.ready_queue) as arrivals:
        messages = [await arrivals.get() for _ in range(3)]
    assert sorted(message.body for message in messages) == [b'{"at":%d}' % at for at in range(3)]
    first, *others = sorted(messages, key=lambda message: message.message_id != "m-1")
    assert first.message_id == "m-1"
    assert {header(other, "x-delay-message-id") for other in others} == {"m-1"}
    assert len({message.message_id for message in messages}) == 3


async def test_id_that_no_message_can_have_becomes_a_digest(topic: Topic, amqp: Amqp) -> None:
    await publish(amqp, topic, {"x-delay": 100}, message_id="käse/1")
    message = await amqp.take(topic.ready_queue)
    assert (message.message_id or "").startswith("job-")
    assert header(message, "x-delay-message-id") == "käse/1"


async def test_delay_in_a_header_works_on_the_wheels_exchange_too(topic: Topic, amqp: Amqp) -> None:
    await amqp.publish("delay", topic.name, b"{}", {"x-delay": 3_600_000}, message_id="m-1")
    assert (await until_found(topic, "m-1"))["state"] == "waiting"


@pytest.mark.parametrize(
    ("key", "headers", "reason"),
    [
        ("orders", {"x-delay": 999 * DAY_MS + 1}, "it must be at most 86313600000, which is 999 days"),
        ("orders", {"x-delay": "soon"}, "the header x-delay is 'soon'"),
        ("not a topic", {"x-delay": 5}, "the routing key 'not a topic' is not a topic"),
    ],
)
async def test_message_that_cannot_be_accepted_is_put_aside(
    amqp: Amqp, key: str, headers: dict[str, Any], reason: str
) -> None:
    await amqp.publish("delay.in", key, b"kept", headers)
    assert (await amqp.put_aside(reason)).body == b"kept"


@pytest.mark.parametrize("has_own_entry", [False, True], ids=["delay.in", "delay.in.E"])
async def test_message_with_further_routing_keys_is_put_aside_and_reaches_no_queue(
    topic: Topic, amqp: Amqp, *, has_own_entry: bool
) -> None:
    async with opened(amqp) as shop, amqp.connection.channel() as channel:
        own = await channel.declare_exchange(
            f"delay.in.{shop.name}", "topic", durable=True, arguments={"alternate-exchange": "delay.checkpoint"}
        )
        await (await channel.get_queue("delay.in", ensure=False)).bind(own, "#")
        entry, first, second = "delay.in", topic.ready_queue, shop.queue.name
        if has_own_entry:
            entry, first, second = own.name, second, first
        # As further keys the names of queues would lead to them from the default exchange.
        further = [second, first, f"{topic.name}-2"]
        headers: Any = {"x-delay": 200, "CC": further}
        await amqp.publish(entry, topic.name, b"refused", headers, message_id="m-1")
        message = await amqp.put_aside("the header CC names further routing keys")
        assert (message.body, message.message_id, header(message, "x-delay")) == (b"refused", "m-1", 200)
        assert header(message, "x-delay-cc") == further

        await amqp.publish(entry, topic.name, b"later", {"x-delay": 400}, message_id="m-2")
        assert (await amqp.take(first)).body == b"later"
        assert (await amqp.get(first), await amqp.get(second)) == (None, None)
        await own.delete()


async def test_message_of_another_exchanges_publisher_returns_to_that_exchange(topic: Topic, amqp: Amqp) -> None:
    async with opened(amqp) as shop, amqp.connection.channel() as channel:
        ingress = await channel.declare_exchange(
            f"delay.in.{shop.name}", "topic", durable=True, arguments={"alternate-exchange": "delay.checkpoint"}
        )
        made = Topic(topic.client, f"exchanges/{shop.name}")
        await amqp.publish(ingress.name, "eu.new", b"1", {"x-delay": 400, "own": 1}, message_id="unbound")
        await (await channel.get_queue("delay.in", ensure=False)).bind(ingress, "#")
        await amqp.publish(
            ingress.name,
            "eu.new",
            b"2",
            {"x-delay": 300, "own": 1},
            message_id="a/b",
            priority=3,
            expiration=60,
            user_id="guest",
            correlation_id="c",
        )
        async with amqp.consume(shop.queue.name) as arrivals:
            by_body = {message.body: message for message in (await arrivals.get(), await arrivals.get())}
        assert {item["id"] for item in (await made.call("GET", "/messages"))["items"]} >= {"unbound"}
        await ingress.delete()

    message = by_body[b"2"]
    assert (message.exchange, message.routing_key, message.message_id) == (shop.name, "eu.new", "a/b")
    assert (message.priority, message.expiration, message.correlation_id, message.user_id) == (3, 60.0, "c", None)
    assert {"x-delay": -300, "own": 1, "x-delay-user-id": "guest"}.items() <= message.headers.items()
    assert by_body[b"1"].routing_key == "eu.new"


async def test_message_may_go_to_any_exchange_and_stays_if_nothing_is_bound(topic: Topic, amqp: Amqp) -> None:
    async with opened(amqp, bound=False) as shop:
        headers = {"x-delay": 100, "x-delay-exchange": shop.name, "x-delay-routing-key": "eu.new"}
        await publish(amqp, topic, headers, message_id="m-1")
        await until_dead(topic, "m-1")
        (letter,) = await dead_letters(topic)
        assert letter["reason"].endswith("NO_ROUTE")
        await shop.bind()
        await topic.call("POST", "/dead/m-1/replay")
        message = await amqp.take(shop.queue.name)
    assert (message.routing_key, message.body, header(message, "x-delay")) == ("eu.new", b'{"order":1}', -100)


async def test_expiration_counts_from_the_release(topic: Topic, amqp: Amqp) -> None:
    await publish(amqp, topic, {"x-delay": 600}, message_id="m-1", expiration=0.2)
    async with amqp.consume(topic.ready_queue) as arrivals:
        assert (await arrivals.get()).expiration == 0.2
    await publish(amqp, topic, {"x-delay": 100}, message_id="m-2", expiration=0.2)
    await until_found(topic, "m-2")
    ended = await topic.until_state("m-2", "expired")
    assert ended["attempts"] == 0


async def test_many_messages_are_accepted_together(topic: Topic, amqp: Amqp) -> None:
    async with amqp.connection.channel() as channel:
        entry = await channel.get_exchange("delay.in", ensure=False)
        messages = [
            Message(b"%d" % at, headers={"x-delay": 500}, message_id=f"m-{at}") for at in range(300)
        ]  # more than a batch
        await asyncio.gather(*(entry.publish(message, topic.name) for message in messages))
    assert sorted(await topic.pull_ids(300, max=100)) == sorted(f"m-{at}" for at in range(300))
