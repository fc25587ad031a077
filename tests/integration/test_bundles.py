"""Tests that several copies travel as one message, which an operator can read and no consumer notices."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import orjson
import pytest
import pytest_asyncio
from aio_pika.abc import HeadersType

from bridge.local.rabbitmq import RabbitNode
from bridge.local.redis import RedisNode
from tests.integration.amqp import Amqp, header
from tests.integration.own import Own, own_bridge
from tests.integration.topic import Json, Topic, due_ms
from tests.waiting import pause

NowMs = Callable[[], Awaitable[int]]
SLOT_OF_FOUR_SECONDS = "delay.000d-00h-00m-03s"  # holds a message with a delay of 4 s, which aims 100-200 ms short
SLOT_OF_A_LEASE_OF_FIVE_SECONDS = "delay.000d-00h-00m-05s"
BUNDLE_TYPE = "application/vnd.delaybridge.bundle"
DUE = "0.0.0.0.0.0.0.!checked-bundle."


@pytest_asyncio.fixture(scope="module")
async def module_bridge(rabbit: RabbitNode, redis_node: RedisNode, local_dir: Path) -> AsyncIterator[Own]:
    """A bridge with queues that no other module uses."""
    async with own_bridge(rabbit, redis_node.url, local_dir) as own:
        yield own


@pytest.fixture
def own(module_bridge: Own) -> Own:
    """A bridge whose queues nobody else fills."""
    return module_bridge.with_fresh_topic()


def numbered(count: int, **fields: object) -> list[Json]:
    return [{"id": f"m-{at:03}", "body": {"order": at}, **fields} for at in range(count)]


def bundle(*copies: tuple[list[object], bytes]) -> bytes:
    """Returns the body of a forged bundle."""
    return b"copies\n" + b"".join(b"%b\n%b\n" % (orjson.dumps([len(body), *facts]), body) for facts, body in copies)


async def pulled(topic: Topic, count: int, **fields: str) -> dict[str, Json]:
    """Pulls and acks `count` messages. Returns them by id."""
    found: dict[str, Json] = {}
    while len(found) < count:
        messages = await topic.pull(max=100, **fields)
        for message in messages:
            assert message["id"] not in found
            found[message["id"]] = message
        if messages:
            acked = await topic.ack_many(receipts=[message["receipt"] for message in messages])
            assert acked == ["acked"] * len(messages)
    return found


async def nothing_else_comes(topic: Topic) -> bool:
    await topic.send(id="marker", delay=900)
    return await topic.drain("marker") == []


async def test_batch_travels_as_one_message_that_describes_itself(own: Own) -> None:
    headers = {"trace": "1", "ratio": 0.5}
    plain = {"id": "text", "body": "hello\n", "content_type": "text/plain", "headers": headers}
    sent = await own.topic.send_many(*numbered(49, delay="4s"), {**plain, "delay": "4s"})
    async with own.amqp.consume(SLOT_OF_FOUR_SECONDS) as standing:
        seen = await standing.get()
        assert standing.empty()
    assert (seen.content_type, header(seen, "x-delay-bundle"), header(seen, "x-delay-topic")) == (
        BUNDLE_TYPE,
        50,
        own.topic.name,
    )
    assert header(seen, "x-delay-due") == min(due_ms(one["message"]) for one in sent)
    assert seen.body.decode().startswith(f"50 copies for {own.topic.name}")
    found = await pulled(own.topic, 50)
    assert {found[f"m-{at:03}"]["body"]["order"] for at in range(49)} == set(range(49))
    text = found["text"]
    assert (text["body"], text["content_type"], text["headers"]) == (
        "hello\n",
        "text/plain",
        headers,
    )
    assert {one["attempts"] for one in found.values()} == {1}
    assert await nothing_else_comes(own.topic)


async def test_ready_queue_gets_plain_messages(topic: Topic, amqp: Amqp, store_now_ms: NowMs) -> None:
    sent = {one["message"]["id"]: one["message"] for one in await topic.send_many(*numbered(5, delay=700))}
    async with amqp.consume(topic.ready_queue) as arrivals:
        for _ in range(5):
            message = await arrivals.get()
            assert await store_now_ms() >= due_ms(sent[message.message_id or ""])
            assert message.content_type == "application/json"
            assert "x-delay-bundle" not in message.headers
            assert header(message, "x-delay-attempt") == 1
            await message.ack()


async def test_messages_of_a_bundle_are_deleted_moved_and_run_one_by_one(topic: Topic, store_now_ms: NowMs) -> None:
    await topic.send_many(*numbered(6, delay="2s"))
    await topic.delete("m-001")
    later = await topic.move("m-002", delay="5s")
    await topic.move("m-003", delay=0)
    assert (await topic.pull_one())["id"] == "m-003"
    assert (await pulled(topic, 3)).keys() == {"m-000", "m-004", "m-005"}
    assert (await pulled(topic, 1)).keys() == {"m-002"}
    assert await store_now_ms() >= due_ms(later)
    assert await topic.state("m-001") == "deleted"


async def test_repeated_id_in_a_batch_is_one_message(topic: Topic) -> None:
    sent = await topic.send_many(*numbered(3, delay=500), *numbered(3, delay=500))
    assert [one["status"] for one in sent].count(201) == 3
    assert len(await pulled(topic, 3)) == 3
    assert await nothing_else_comes(topic)


async def test_pull_of_a_hundred_parks_one_bundle_and_redelivers_the_unacked(own: Own) -> None:
    await own.topic.send_many(*numbered(100))
    leased: list[Json] = []
    while len(leased) < 100:
        leased += await own.topic.pull(max=100, lease="5s")
    bundles = await own.amqp.count(SLOT_OF_A_LEASE_OF_FIVE_SECONDS)
    assert bundles is not None
    assert bundles < 10  # one, unless a get found the queue empty for a moment
    acked, left = leased[:50], leased[50:]
    receipts = [one["receipt"] for one in acked]
    assert await own.topic.ack_many(receipts=receipts) == ["acked"] * 50
    await own.topic.extend(left[0], "7s")
    again = await pulled(own.topic, 50)
    assert again.keys() == {one["id"] for one in left}
    assert {one["attempts"] for one in again.values()} == {2}
    assert list(again)[-1] == left[0]["id"]
    assert await nothing_else_comes(own.topic)


async def test_bundle_of_acked_leases_ends_silently(own: Own) -> None:
    await own.topic.send_many(*numbered(20))
    assert len(await pulled(own.topic, 20, lease="4s")) == 20
    await own.topic.send(id="marker", delay="4500ms")
    assert await own.topic.drain("marker") == []
    metrics = (await own.topic.client.get("/metrics")).text
    name = f'delaybridge_ghosts_dropped_total{{topic="{own.topic.name}"}}'
    ghosts = [line for line in metrics.splitlines() if line.startswith(name)]
    assert [float(line.split()[-1]) for line in ghosts] == [20.0]


async def test_paused_topic_holds_a_bundle_and_then_delivers_each_message_once(topic: Topic) -> None:
    await topic.put_policy(paused=True)
    await topic.send_many(*numbered(10, delay=300))
    await topic.send(id="due", delay=300)
    await topic.beside("other").send(id="marker", delay=900)
    await topic.beside("other").drain("marker")
    await topic.put_policy(paused=False)
    assert len(await pulled(topic, 11)) == 11
    assert await nothing_else_comes(topic)


async def test_paused_topic_holds_messages_of_amqp_clients_and_then_delivers_each(topic: Topic, amqp: Amqp) -> None:
    await topic.put_policy(paused=True)
    names = {f"m-{at}" for at in range(8)}
    key = f"0.0.0.0.0.0.0.{topic.name}"
    await asyncio.gather(*(amqp.publish("delay", key, message_id=name) for name in names))
    while (await topic.info())["counts"]["waiting"] < len(names):
        await pause()
    await topic.put_policy(paused=False)
    assert set(await pulled(topic, 8)) == names


async def test_bundle_survives_a_change_to_direct_release(topic: Topic, amqp: Amqp) -> None:
    await topic.send_many(*numbered(5, delay="1500ms"))
    await topic.put_policy(release="direct")
    taken = [await amqp.take(topic.ready_queue) for _ in range(5)]
    assert {message.message_id for message in taken} == {f"m-{at:03}" for at in range(5)}
    assert {message.content_type for message in taken} == {"application/json"}


async def test_bundle_header_under_a_plain_key_is_ignored(topic: Topic, amqp: Amqp) -> None:
    headers: HeadersType = {"x-delay-bundle": 2, "x-delay-due": 1}
    await amqp.publish("delay", f"0.0.0.0.0.0.0.{topic.name}", b'"mine"', headers=headers, message_id="mine")
    message = await topic.pull_one()
    assert (message["id"], message["body"]) == ("mine", "mine")


@pytest.mark.parametrize("body", [b"", b"junk", b"copies\n[1]\n"])
async def test_unreadable_bundle_is_put_aside_and_holds_up_no_other(topic: Topic, amqp: Amqp, body: bytes) -> None:
    await amqp.publish("delay", f"{DUE}{topic.name}", body, headers={"x-delay-bundle": 1, "x-delay-due": 1})
    assert (await amqp.put_aside("can't be read")).body == body
    await topic.send(id="marker", delay=1)
    assert await topic.drain("marker") == []


async def test_unreadable_copy_of_a_bundle_is_put_aside_alone(topic: Topic, amqp: Amqp, store_now_ms: NowMs) -> None:
    now_ms = await store_now_ms()
    facts: list[object] = [1, 7, 1, 3, now_ms, 0, now_ms]
    body = bundle((["poison", *facts, {}], b"1"), (["fine", *facts], b"2"))
    await amqp.publish("delay", f"{DUE}{topic.name}", body, headers={"x-delay-bundle": 2, "x-delay-due": now_ms})

    assert b'"poison"' in (await amqp.put_aside("can't be read")).body
    assert (await topic.pull_one())["id"] == "fine"


@pytest.mark.parametrize(
    ("reply_to", "reason"),
    [("x" * 300, "can't be written"), ("amq.rabbitmq.reply-to", "RabbitMQ refuses the message")],
    ids=["beyond AMQP", "RabbitMQ closes the channel"],
)
async def test_forged_bundle_publishes_only_valid_copies_to_the_topic_of_its_key(
    topic: Topic, amqp: Amqp, store_now_ms: NowMs, reply_to: str, reason: str
) -> None:
    now_ms = await store_now_ms()
    facts: list[object] = [1, 7, 1, 3, now_ms, 0, now_ms]
    good = [([f"m-{at}", *facts], b"1") for at in range(30)]
    poison: tuple[list[object], bytes] = (["poison", *facts, "text/plain", {}, {"reply_to": reply_to}], b"2")
    headers: HeadersType = {"x-delay-bundle": 31, "x-delay-due": now_ms, "x-delay-topic": "another"}
    await amqp.publish("delay", f"{DUE}{topic.name}", bundle(*good[:20], poison, *good[20:]), headers=headers)
    assert (await pulled(topic, 30)).keys() == {str(facts[0]) for facts, _ in good}
    refused = await amqp.put_aside(reason)
    assert refused.body == b"2"
    assert await nothing_else_comes(topic)
