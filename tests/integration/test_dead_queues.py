"""Tests that a topic has a dead queue from its first letter on."""

from __future__ import annotations

import asyncio

import pytest

from tests.integration.amqp import Amqp
from tests.integration.dead_letters import bury_next, dead_ids, make_dead
from tests.integration.topic import Topic
from tests.waiting import pause


async def test_topic_without_letters_has_no_dead_queue(topic: Topic, amqp: Amqp) -> None:
    await topic.send(id="lives")
    await topic.ack(await topic.pull_one())
    assert await dead_ids(topic) == []
    assert await topic.call("POST", "/dead/replay") == {"replayed": 0}
    assert await topic.call("DELETE", "/dead") == {"dropped": 0}
    assert await amqp.count(topic.dead_queue) is None

    await make_dead(topic, "first")
    assert await dead_ids(topic) == ["first"]
    assert (await amqp.take(topic.dead_queue)).message_id == "first"


async def test_dead_queue_is_declared_while_the_last_lease_lasts(topic: Topic, amqp: Amqp) -> None:
    await topic.send(id="retried", max_retry=1)
    await topic.ack(await topic.pull_one(lease="4s"))
    await topic.send(id="letter", max_retry=0)
    assert await amqp.count(topic.dead_queue) is None  # nobody expects a letter of a message with a retry left
    await topic.pull_one(lease="4s")
    while await amqp.count(topic.dead_queue) is None:
        await pause()
    assert await topic.state("letter") == "leased"


@pytest.mark.parametrize("over_amqp", [False, True])
async def test_dead_queue_is_declared_while_the_last_retry_waits(topic: Topic, amqp: Amqp, over_amqp: bool) -> None:
    async def fail() -> None:
        if not over_amqp:
            await topic.nack(await topic.pull_one())
            return
        async with amqp.consume(topic.ready_queue) as arrivals:
            await (await arrivals.get()).reject(requeue=False)
            await topic.until_state("m-1", "waiting")

    await topic.put_policy(backoff=["1h"], max_retry=2)
    await topic.send(id="m-1")
    await fail()
    assert await amqp.count(topic.dead_queue) is None  # another retry is left
    await topic.move("m-1", delay=0)
    await fail()
    while await amqp.count(topic.dead_queue) is None:
        await pause()
    assert await topic.state("m-1") == "waiting"


async def test_first_letters_of_many_topics_have_a_queue_each(topic: Topic, amqp: Amqp) -> None:
    others = [topic.beside(f"{number}") for number in range(10)]  # more than channels declare at the same time
    for other in others:
        await other.send(id="letter", max_retry=0)
    await asyncio.gather(*map(bury_next, others))
    assert [await amqp.count(other.dead_queue) for other in others] == [1] * len(others)


async def test_letters_of_a_deleted_queue_have_a_new_one(topic: Topic, amqp: Amqp) -> None:
    await make_dead(topic, "lost")
    await amqp.delete_queue(topic.dead_queue)
    await make_dead(topic, "next")
    assert (await amqp.take(topic.dead_queue)).message_id == "next"


@pytest.mark.parametrize("method", ["POST", "DELETE"])
async def test_letters_of_a_deleted_queue_are_replayed_and_dropped_from_their_records(
    topic: Topic, amqp: Amqp, method: str
) -> None:
    await make_dead(topic, "m-1", "m-2")
    await amqp.delete_queue(topic.dead_queue)
    if method == "POST":
        assert await topic.call("POST", "/dead/replay", {"max": 1}) == {"replayed": 1}
        assert await topic.call("POST", "/dead/replay") == {"replayed": 1}
        assert sorted(await topic.pull_ids(2)) == ["m-1", "m-2"]
    else:
        assert await topic.call("DELETE", "/dead") == {"dropped": 2}
    assert await dead_ids(topic) == []


async def test_first_letter_holds_up_no_message_of_another_topic(topic: Topic, amqp: Amqp) -> None:
    other, letter = topic.beside("other"), topic.beside("letter")
    await other.put_policy()
    await letter.send(id="letter", max_retry=0)
    async with amqp.consume(letter.ready_queue) as arrivals:
        await (await arrivals.get()).reject(requeue=False)
    while await amqp.count(letter.dead_queue) is None:
        await pause()
    # The checkpoint holds the letter until its queue would survive a kill of RabbitMQ.
    await other.send(id="due", delay=200)
    assert (await other.pull_one())["id"] == "due"
    assert await letter.state("letter") != "dead"
    await letter.until_state("letter", "dead")
    assert await amqp.count(letter.dead_queue) == 1
