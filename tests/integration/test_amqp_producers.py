"""Tests AMQP producers: any client delays a message by its routing key on the exchange `delay`."""

from __future__ import annotations

import struct
from collections.abc import Awaitable, Callable
from hashlib import sha256
from typing import Any

import pytest
from pamqp import decode
from pamqp.common import FieldTable

from tests.integration.amqp import Amqp, header
from tests.integration.dead_letters import until_dead
from tests.integration.topic import Topic, due_ms
from tests.integration.written import WrittenValue, allow_written_values

NowMs = Callable[[], Awaitable[int]]


async def test_message_published_by_key_is_not_early_and_is_visible_when_due(
    topic: Topic, amqp: Amqp, store_now_ms: NowMs
) -> None:
    before_ms = await store_now_ms()
    await amqp.publish(
        "delay",
        f"0.0.0.0.0.1.5.{topic.name}",
        b'{"order":1}',
        {"tenant": "t-7"},
        message_id="m-1",
        content_type="application/json",
    )
    await topic.look("m-1", expect=404)
    pulled = await topic.pull_one()
    assert await store_now_ms() >= before_ms + 1_500
    assert due_ms(pulled) >= before_ms + 1_500
    assert (pulled["id"], pulled["body"], pulled["headers"]) == ("m-1", {"order": 1}, {"tenant": "t-7"})
    assert (pulled["state"], pulled["attempts"], pulled["max_retry"]) == ("leased", 1, 3)
    assert (await topic.look("m-1"))["body"] == {"order": 1}
    assert (await topic.ack(pulled))["state"] == "acked"


async def test_message_published_without_an_id_gets_one(topic: Topic, amqp: Amqp) -> None:
    await amqp.publish("delay", f"0.0.0.0.0.0.0.{topic.name}", b"\xff\x00", content_type="application/octet-stream")
    pulled = await topic.pull_one()
    assert pulled["body_base64"] == "/wA="
    assert await topic.state(pulled["id"]) == "leased"
    assert (await topic.nack(pulled))["state"] == "waiting"
    assert (await topic.pull_one())["attempts"] == 2


def show_types(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes this process's AMQP client show each number of a header with its type: `I:5`."""

    def shown(kind: str, decoded: Callable[[bytes], tuple[int, Any]]) -> Callable[[bytes], tuple[int, str]]:
        def show(value: bytes) -> tuple[int, str]:
            size, number = decoded(value)
            return size, f"{kind}:{number}"

        return show

    for kind in (b"b", b"s", b"I", b"l", b"f", b"d"):
        monkeypatch.setitem(decode.TABLE_MAPPING, kind, shown(kind.decode(), decode.TABLE_MAPPING[kind]))


async def test_consumers_get_what_a_client_put_in(topic: Topic, amqp: Amqp, monkeypatch: pytest.MonkeyPatch) -> None:
    """No content type stays none, and numbers have the types that the client chose, also after a failed delivery."""
    allow_written_values(monkeypatch)
    show_types(monkeypatch)
    sent: Any = {
        "Integer": WrittenValue(b"I\0\0\0\5"),
        "Long": WrittenValue(b"l\0\0\0\0\0\0\0\5"),
        "Float": WrittenValue(b"f" + struct.pack(">f", 0.5)),
        "List": WrittenValue(b"A\0\0\0\5I\0\0\0\5"),
        "Map": WrittenValue(b"F\0\0\0\7\1nI\0\0\0\5"),
    }
    await amqp.publish("delay", f"0.0.0.0.0.0.2.{topic.name}", b"\x80", sent, message_id="m-1")
    await topic.pull(wait=0)
    async with amqp.consume(topic.ready_queue) as arrivals:
        for _ in range(2):
            message = await arrivals.get()
            assert message.content_type is None
            assert {name: header(message, name) for name in sent} == {
                "Integer": "I:5", "Long": "l:5", "Float": "f:0.5", "List": ["I:5"], "Map": {"n": "I:5"},
            }  # fmt: skip
            await message.reject(requeue=False)


async def test_message_whose_id_is_no_id_is_known_by_its_digest_and_has_the_clients_id_in_a_header(
    topic: Topic, amqp: Amqp
) -> None:
    await amqp.publish("delay", f"0.0.0.0.0.0.1.{topic.name}", message_id="orders/7")
    pulled = await topic.pull_one()
    assert pulled["id"] == "job-" + sha256(b"orders/7").hexdigest()[:32]
    assert pulled["headers"] == {"x-delay-message-id": "orders/7"}
    assert (await topic.look(pulled["id"]))["headers"] == pulled["headers"]
    await topic.nack(pulled)
    message = await amqp.take(topic.ready_queue)
    assert (message.message_id, header(message, "x-delay-message-id")) == (pulled["id"], "orders/7")


async def test_policy_of_the_topic_holds_for_messages_of_clients(topic: Topic, amqp: Amqp) -> None:
    await topic.put_policy(max_retry=1, ttl="1h", lease="2m", backoff=["30m"])
    await amqp.publish("delay", f"0.0.0.0.0.0.1.{topic.name}", message_id="m-1")
    pulled = await topic.pull_one()
    assert pulled["max_retry"] == 1
    assert due_ms({"due_at": pulled["expires_at"]}) == due_ms(pulled) + 3_600_000
    assert due_ms({"due_at": pulled["lease_until"]}) > due_ms(pulled) + 100_000
    waiting = await topic.nack(pulled)
    assert due_ms(waiting) > due_ms(pulled) + 1_700_000
    await topic.move("m-1", delay=0)
    assert (await topic.nack(await topic.pull_one()))["state"] == "dead"


async def test_clients_own_retries_and_time_to_live_come_before_the_policy(
    topic: Topic, amqp: Amqp, store_now_ms: NowMs
) -> None:
    await topic.put_policy(max_retry=1, ttl="1h")
    expires_ms = await store_now_ms() + 60_000
    own: FieldTable = {"x-delay-max-retry": 7, "x-delay-expires": expires_ms}
    await amqp.publish("delay", f"0.0.0.0.0.0.1.{topic.name}", headers=own)
    pulled = await topic.pull_one()
    assert (pulled["max_retry"], due_ms({"due_at": pulled["expires_at"]})) == (7, expires_ms)


@pytest.mark.parametrize("over", ["http", "amqp"])
async def test_policy_of_a_direct_topic_holds_for_messages_of_clients(topic: Topic, amqp: Amqp, over: str) -> None:
    await topic.put_policy(release="direct", max_retry=0)
    await amqp.publish("delay", f"0.0.0.0.0.0.1.{topic.name}", message_id="m-1")
    if over == "http":
        # The body is not kept, so the lease has to end before the message is a dead letter.
        pulled = await topic.pull_one(lease="3s")
        assert pulled["max_retry"] == 0
        await topic.nack(pulled)
    else:
        async with amqp.consume(topic.ready_queue) as arrivals:
            await (await arrivals.get()).reject(requeue=False)
    await until_dead(topic, "m-1")
    assert (await amqp.take(topic.dead_queue)).message_id == "m-1"


async def test_properties_that_would_misroute_a_message_are_removed(
    topic: Topic, amqp: Amqp, store_now_ms: NowMs
) -> None:
    """CC and BCC would route copies at once, an expiration would end a wait early, and only RabbitMQ sets deaths."""
    before_ms = await store_now_ms()
    death: FieldTable = {
        "queue": "elsewhere",
        "reason": "rejected",
        "count": 1,
        "exchange": "",
        "routing-keys": ["elsewhere"],
    }
    await amqp.publish(
        "delay",
        f"0.0.0.0.0.1.2.{topic.name}",
        b'"astray"',
        {
            "CC": ["nowhere"],
            "BCC": ["nowhere"],
            "x-death": [death],
            "x-first-death-queue": "elsewhere",
            "x-delay-due-at": "now",
            "kept": 1,
        },
        message_id="m-1",
        expiration=0.1,
    )
    await topic.pull(wait=0)
    message = await amqp.take(topic.ready_queue)
    assert await store_now_ms() >= before_ms + 1_200
    assert (message.message_id, message.body, message.expiration) == ("m-1", b'"astray"', None)
    ours = {name for name in message.headers if name.startswith("x-delay-")}
    assert "x-delay-due-at" not in ours  # of a dead letter alone, and never a client's
    assert set(message.headers) - ours - {"x-delivery-count"} == {"kept"}


async def test_cc_header_brings_no_early_copy(topic: Topic, amqp: Amqp, store_now_ms: NowMs) -> None:
    before_ms = await store_now_ms()
    ahead = f"0.0.0.0.0.0.1.{topic.name}"
    await amqp.publish("delay", f"0.0.0.0.0.1.0.{topic.name}", b"1", {"CC": [ahead]}, message_id="m-1")
    pulled = await topic.pull_one()
    assert (pulled["id"], pulled["headers"]) == ("m-1", {})
    assert await store_now_ms() >= before_ms + 1_000


@pytest.mark.parametrize(
    "key",
    [
        "",
        "orders",
        "5.orders",
        "1.hello",
        "9.9.9.23.59.59.orders",
        "0.0.0.0.0.0.orders",
        "0.0.0.0.0.61.0.orders",
        "0.0.0.0.0.05.0.orders",
        "0.0.0.0.0.0.0.bad!",
    ],
)
async def test_message_with_a_malformed_key_is_put_aside_with_the_reason(amqp: Amqp, key: str) -> None:
    await amqp.publish("delay", key, b"malformed", {"kept": 1}, message_id=key or "none", expiration=60)
    message = await amqp.put_aside(f"{key!r} is not a key of the wheel")
    assert (message.message_id, message.body) == (key or "none", b"malformed")
    assert (header(message, "kept"), message.expiration) == (1, None)


async def test_message_with_a_malformed_key_reaches_no_queue_that_its_cc_header_names(topic: Topic, amqp: Amqp) -> None:
    await amqp.publish("delay", "1.hello", b"refused", {"CC": [topic.ready_queue]}, message_id="m-1")
    assert (await amqp.put_aside("'1.hello' is not a key of the wheel")).message_id == "m-1"
    assert await amqp.get(topic.ready_queue) is None


async def test_missing_slot_is_declared_for_the_first_message(topic: Topic, amqp: Amqp, store_now_ms: NowMs) -> None:
    for slot in ("delay.000d-00h-00m-02s", "delay.000d-00h-00m-00.7s"):
        await amqp.delete_queue(slot)
    before_ms = await store_now_ms()
    await amqp.publish("delay", f"0.0.0.0.0.2.7.{topic.name}", message_id="m-1")
    pulled = await topic.pull_one()
    assert await store_now_ms() >= before_ms + 2_700
    assert (pulled["id"], pulled["attempts"]) == ("m-1", 1)


async def test_slot_deleted_by_an_operator_is_declared_again(topic: Topic, amqp: Amqp, store_now_ms: NowMs) -> None:
    # The bridge aims a tenth of a second short of 1.5 s, so the message passes both slots.
    await topic.send(id="before", delay=1_550)
    await topic.ack(await topic.pull_one())
    for slot in ("delay.000d-00h-00m-01s", "delay.000d-00h-00m-00.4s"):
        assert await amqp.count(slot) is not None
        await amqp.delete_queue(slot)
    sent = await topic.send(id="after", delay=1_550)
    pulled = await topic.pull_one()
    assert (pulled["id"], pulled["attempts"]) == ("after", 1)
    assert await store_now_ms() >= due_ms(sent) == due_ms(pulled)
    await topic.send(id="again", delay=1_550)
    assert await amqp.count("delay.000d-00h-00m-01s") is not None
