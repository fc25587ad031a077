"""Tests messages that run out of retries or time to live: dead letters, their replay and removal."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import aio_pika

from bridge.model.durations import format_instant
from tests.integration.amqp import Amqp, header
from tests.integration.dead_letters import dead_ids, make_dead
from tests.integration.topic import Json, Topic, due_ms
from tests.waiting import pause

NowMs = Callable[[], Awaitable[int]]


async def test_message_whose_leases_all_end_is_dead_after_max_retry(topic: Topic, amqp: Amqp) -> None:
    await topic.send({"order": 1}, id="m-1", max_retry=2, headers={"tenant": "t-7"})
    attempts = [(await topic.pull_one(lease="1s"))["attempts"] for _ in range(3)]
    assert attempts == [1, 2, 3]
    dead = await topic.until_state("m-1", "dead")
    assert (dead["attempts"], dead["reason"]) == (3, "retries used up")
    assert await topic.pull(wait=0) == []
    assert await dead_ids(topic) == ["m-1"]
    assert await amqp.count(topic.dead_queue) == 1
    replayed = await topic.call("POST", "/dead/m-1/replay")
    assert (replayed["state"], replayed["attempts"], replayed["reason"]) == ("waiting", 0, None)
    again = await topic.pull_one()
    assert (again["attempts"], again["body"], again["headers"]) == (1, {"order": 1}, {"tenant": "t-7"})
    assert (await topic.ack(again))["state"] == "acked"
    assert await amqp.count(topic.dead_queue) == 0


async def test_dead_letter_has_the_reason_and_the_message(topic: Topic, amqp: Amqp) -> None:
    await make_dead(topic, "m-1")
    letter = await amqp.get(topic.dead_queue)
    assert letter is not None
    assert (letter.message_id, letter.body) == ("m-1", b'{"of":"m-1"}')
    assert header(letter, "x-delay-reason") == "refused"
    assert header(letter, "x-delay-topic") == topic.name
    assert header(letter, "x-delay-due") == due_ms(await topic.look("m-1"))
    assert header(letter, "x-delay-due-at") == format_instant(header(letter, "x-delay-due"))


async def test_replayed_letter_has_no_header_of_a_dead_letter(topic: Topic, amqp: Amqp) -> None:
    await make_dead(topic, "m-1")
    await topic.call("POST", "/dead/replay")
    message = await amqp.take(topic.ready_queue)
    assert message.message_id == "m-1"
    assert not {"x-delay-reason", "x-delay-due-at"} & message.headers.keys()


async def test_replay_of_one_dead_letter_leaves_the_others(topic: Topic, amqp: Amqp) -> None:
    await make_dead(topic, "a", "b", "c")
    await topic.call("POST", "/dead/b/replay")
    assert (await topic.pull_one())["id"] == "b"
    await topic.call("POST", "/dead/b/replay", expect=404)
    await topic.call("POST", "/dead/none/replay", expect=404)
    assert await dead_ids(topic) == ["a", "c"]
    while await amqp.count(topic.dead_queue) != 2:
        await pause()  # letters that the bridge inspected are requeued when its channel closes


async def test_dead_letter_behind_thousands_of_others_is_replayed_or_dropped(topic: Topic, amqp: Amqp) -> None:
    await make_dead(topic, "first")
    async with amqp.connection.channel() as channel:
        letter = aio_pika.Message(b"1", delivery_mode=aio_pika.DeliveryMode.PERSISTENT)
        await asyncio.gather(*(channel.default_exchange.publish(letter, topic.dead_queue) for _ in range(2_100)))
    await make_dead(topic, "replayed", "dropped")

    await topic.call("POST", "/dead/replayed/replay")
    assert (await topic.pull_one())["id"] == "replayed"
    await topic.call("DELETE", "/dead/dropped")

    while await amqp.count(topic.dead_queue) != 2_101:
        await pause()


async def test_many_dead_letters_are_replayed_oldest_first(topic: Topic) -> None:
    await make_dead(topic, "a", "b", "c")
    assert await topic.call("POST", "/dead/replay", {"max": 2}) == {"replayed": 2}
    assert sorted(await topic.pull_ids(2)) == ["a", "b"]
    assert await topic.call("POST", "/dead/replay") == {"replayed": 1}
    assert await topic.call("POST", "/dead/replay") == {"replayed": 0}
    assert await topic.pull_ids(1) == ["c"]


async def test_dead_letters_are_dropped_one_or_many(topic: Topic, amqp: Amqp) -> None:
    await make_dead(topic, "a", "b", "c", "d")
    assert (await topic.call("DELETE", "/dead/b"))["state"] == "deleted"
    await topic.call("DELETE", "/dead/b", expect=404)
    assert await dead_ids(topic) == ["a", "c", "d"]
    while await amqp.count(topic.dead_queue) != 3:  # the drop gives the others back
        await pause()
    assert await topic.call("DELETE", "/dead?max=2") == {"dropped": 2}
    assert await dead_ids(topic) == ["d"]
    assert await topic.call("DELETE", "/dead") == {"dropped": 1}
    assert await amqp.count(topic.dead_queue) == 0
    assert await topic.state("a") == "deleted"
    await topic.send(id="marker")
    assert await topic.drain("marker") == []


async def test_only_one_of_several_calls_at_once_drops_or_replays_a_letter(topic: Topic, amqp: Amqp) -> None:
    ids = [f"m-{number}" for number in range(10)]
    await make_dead(topic, *ids)
    paths = [f"/v1/topics/{topic.name}/dead/{one}" for one in ids]
    calls = [call for path in paths for call in (("DELETE", path), ("POST", f"{path}/replay"), ("DELETE", path))]
    answers = await asyncio.gather(*(topic.client.request(*call) for call in calls))
    for at in range(0, len(answers), 3):
        of_letter = answers[at : at + 3]
        assert sorted(answer.status_code for answer in of_letter) == [200, 404, 404], [one.text for one in of_letter]
    assert await amqp.count(topic.dead_queue) == 0  # each search found its letter among those that others had read


async def test_message_not_consumed_within_its_ttl_expires(topic: Topic, amqp: Amqp) -> None:
    now, later = await asyncio.gather(topic.send(ttl=300), topic.send(delay=300, ttl=300))
    assert due_ms({"due_at": later["expires_at"]}) == due_ms(later) + 300
    for sent in (now, later):
        expired = await topic.until_state(sent["id"], "expired")
        assert (expired["attempts"], expired["reason"]) == (0, "time to live passed")
        assert due_ms({"due_at": expired["ended_at"]}) >= due_ms({"due_at": sent["expires_at"]}) - 1_000
    assert await topic.pull(wait=0) == []
    assert await amqp.count(topic.ready_queue) == 0
    assert await dead_ids(topic) == []


async def test_message_past_its_ttl_after_a_failure_is_dead_without_a_letter(topic: Topic, amqp: Amqp) -> None:
    await topic.put_policy(ttl="2s")  # also declares the queues, which takes longer than the rest of the test
    sent = await topic.send(id="m-1")
    await topic.nack(await topic.pull_one(), delay=200)
    dead = await topic.until_state("m-1", "dead")
    assert (dead["attempts"], dead["reason"]) == (1, "time to live passed")
    assert dead["expires_at"] == sent["expires_at"]
    assert await dead_ids(topic) == []
    assert await amqp.count(topic.dead_queue) is None
    await topic.call("POST", "/dead/m-1/replay", expect=404)


async def test_message_consumed_within_its_ttl_does_not_expire(topic: Topic) -> None:
    await topic.send(id="m-1", delay=200, ttl="1m")
    leased = await topic.pull_one()
    assert (await topic.ack(leased))["state"] == "acked"


async def test_topic_sets_the_default_ttl_and_retries(topic: Topic) -> None:
    await topic.put_policy(ttl="1m", max_retry=7)
    plain, own = await topic.send(), await topic.send(ttl="2m", max_retry=0)
    ttls_ms: list[tuple[Json, int, int]] = [(plain, 60_000, 7), (own, 120_000, 0)]
    for sent, ttl_ms, max_retry in ttls_ms:
        assert due_ms({"due_at": sent["expires_at"]}) - due_ms(sent) == ttl_ms
        assert sent["max_retry"] == max_retry
