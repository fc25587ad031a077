"""Callbacks from a running bridge to a receiver: what is called, how often, and what becomes of the message.

Nothing sleeps: a test waits for calls, or for states.
"""

from __future__ import annotations

import asyncio
import base64

import pytest
from standardwebhooks.webhooks import Webhook

from bridge.local.ports import free_ports
from tests.callbacks.receiver import Received, Receiver, answer, receiving
from tests.callbacks.subscribing import OTHER_SECRET, SECRET, attempts, subscribe, until_standing
from tests.integration.topic import Topic, due_ms


async def test_what_fails_twice_is_called_a_third_time_signed_each_time_and_acked(
    topic: Topic, receiver: Receiver
) -> None:
    receiver.then = [answer(500, b"no"), answer(404)]
    await subscribe(topic, receiver)
    body = b'{"order":  1001, "price": 1.50}'
    encoded = base64.b64encode(body).decode()
    sent = await topic.send(body_base64=encoded, id="o-1", delay=300, headers={"tenant": "t-7", "n": 5})

    calls = await receiver.some(3)

    assert attempts(calls) == ["1", "2", "3"]
    assert {call.headers["webhook-id"] for call in calls} == {calls[0].headers["webhook-id"]}
    for call in calls:
        assert call.body == body
        assert Webhook(SECRET).verify(body, dict(call.headers)) == {"order": 1001, "price": 1.5}
        assert (call.target, call.headers["content-type"]) == ("/hook", "application/json")
        assert (call.headers["x-delay-topic"], call.headers["x-delay-id"]) == (topic.name, "o-1")
        assert call.headers["x-delay-headers"] == '{"n":5,"tenant":"t-7"}'
    assert calls[0].at_ms >= due_ms(sent)
    assert calls[1].at_ms >= calls[0].at_ms + 300
    assert (await topic.until_state("o-1", "acked"))["attempts"] == 3
    stands = await until_standing(topic, delivered=1, failed=2)
    assert (stands["state"], stands["secrets"], "secret" in stands) == ("active", 1, False)
    assert (stands["last_failure"]["id"], stands["last_failure"]["detail"]) == ("o-1", "answered 404")
    assert SECRET.removeprefix("whsec_") not in str(stands)


async def test_connections_are_kept_and_bytes_are_bytes(topic: Topic, receiver: Receiver) -> None:
    await subscribe(topic, receiver, concurrency=1)
    for number in range(3):
        await topic.send(
            body_base64=base64.b64encode(bytes(range(256))).decode(), content_type="image/x", id=f"{number}"
        )

    calls = await receiver.some(3)

    assert {call.body for call in calls} == {bytes(range(256))}
    assert {call.headers["content-type"] for call in calls} == {"image/x"}
    assert {call.connection for call in calls} == {1}


async def test_each_of_several_secrets_makes_a_signature(topic: Topic, receiver: Receiver) -> None:
    assert (await subscribe(topic, receiver, secret=[OTHER_SECRET, SECRET]))["secrets"] == 2
    await topic.send({"n": 1})

    (call,) = await receiver.some(1)

    for secret in (SECRET, OTHER_SECRET):
        assert Webhook(secret).verify(call.body, dict(call.headers)) == {"n": 1}


async def test_a_receiver_that_never_answers_has_the_message_dead_in_the_end(topic: Topic, receiver: Receiver) -> None:
    async def never(received: Received) -> bytes:
        await asyncio.get_running_loop().create_future()
        raise AssertionError

    receiver.say = never
    await subscribe(topic, receiver, timeout="1s")
    await topic.send(id="o-1", max_retry=1)

    calls = await receiver.some(2)

    assert attempts(calls) == ["1", "2"]
    assert (await topic.until_state("o-1", "dead"))["reason"] == "callback: no answer within 1000 ms"
    assert receiver.calls.empty()
    assert (await until_standing(topic, failed=2))["last_failure"]["reason"] == "timeout"


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (answer(302, location="/elsewhere"), "redirect"),
        (answer(200, b"x" * 70_000), "answer_too_long"),
        (b"this is no HTTP\r\n\r\n", "connection"),
        (answer(503), "status"),
    ],
    ids=["redirect", "long", "nonsense", "503"],
)
async def test_what_is_no_2xx_answer_is_a_failed_attempt(
    topic: Topic, receiver: Receiver, said: bytes, reason: str
) -> None:
    receiver.then = [said]
    await subscribe(topic, receiver)
    await topic.send(id="o-1")

    calls = await receiver.some(2)

    assert [call.target for call in calls] == ["/hook", "/hook"]  # a redirect is not followed
    assert attempts(calls) == ["1", "2"]
    await topic.until_state("o-1", "acked")
    assert (await until_standing(topic, delivered=1))["last_failure"]["reason"] == reason


async def test_where_nobody_listens_it_is_a_failed_attempt(topic: Topic, receiver: Receiver) -> None:
    await subscribe(topic, receiver, url=f"http://127.0.0.1:{free_ports(1)[0]}/")
    await topic.send(id="o-1", max_retry=0)

    await topic.until_state("o-1", "dead")

    assert (await until_standing(topic, failed=1))["last_failure"]["reason"] == "connection"


async def test_410_ends_the_subscription_and_leaves_the_message_to_others(topic: Topic, receiver: Receiver) -> None:
    receiver.then = [answer(410)]
    await subscribe(topic, receiver)
    await topic.send(id="o-1")
    await receiver.some(1)

    stands = await until_standing(topic, state="ended")

    assert stands["ended_at"] is not None
    left = await topic.pull_one()
    assert (left["id"], left["attempts"]) == ("o-1", 1)  # the attempt was given back
    await topic.nack(left)
    assert (await subscribe(topic, receiver))["state"] == "active"
    (call,) = await receiver.some(1)
    assert call.headers["x-delay-id"] == "o-1"


@pytest.mark.parametrize("status", [429, 503])
async def test_a_receiver_that_asks_for_patience_is_left_alone_and_no_attempt_is_counted(
    topic: Topic, receiver: Receiver, status: int
) -> None:
    receiver.then = [answer(status, retry_after="2"), answer(status, retry_after="1")]
    await subscribe(topic, receiver, concurrency=1)
    await asyncio.gather(*(topic.send(id=f"o-{number}", max_retry=0) for number in range(3)))

    calls = await receiver.some(5)

    assert calls[1].at_ms >= calls[0].at_ms + 2_000
    assert calls[2].at_ms >= calls[1].at_ms + 1_000
    assert attempts(calls) == ["1"] * 5
    for number in range(3):
        await topic.until_state(f"o-{number}", "acked")
    stands = await until_standing(topic, delivered=3)
    assert (stands["failed"], stands["state"]) == (0, "active")


async def test_a_slow_receiver_holds_up_no_other_topic(topic: Topic, receiver: Receiver) -> None:
    release = asyncio.Event()

    async def slowly(received: Received) -> bytes:
        await release.wait()
        return answer()

    other = topic.beside("other")
    async with receiving() as slow:
        slow.say = slowly
        await subscribe(topic, slow, concurrency=2, timeout="60s")
        await subscribe(other, receiver)
        for number in range(5):
            await topic.send(id=f"slow-{number}")
        await slow.some(2)  # as many as may be under way
        for number in range(20):
            await other.send(id=f"{number}")
        ids = {call.headers["x-delay-id"] for call in await receiver.some(20)}
        assert slow.calls.empty()
        release.set()
        await slow.some(3)

    assert ids == {str(number) for number in range(20)}
