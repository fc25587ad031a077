"""Tests callbacks from a running bridge to a receiver: the calls, their retries, and the message's final state.

No test sleeps: each waits for calls, or for states.
"""

from __future__ import annotations

import asyncio
import base64
from time import time

import pytest
from standardwebhooks.webhooks import Webhook

from bridge.local.ports import free_ports
from tests.callbacks.receiver import Received, Receiver, answer, receiving
from tests.callbacks.subscribing import OTHER_SECRET, SECRET, attempts, subscribe, until_subscription
from tests.integration.topic import Topic


async def test_two_failed_attempts_are_retried_and_a_2xx_acknowledges(topic: Topic, receiver: Receiver) -> None:
    receiver.then = [answer(500, b"no"), answer(404)]
    await subscribe(topic, receiver)
    body = b'{"order":  1001, "price": 1.50}'
    encoded = base64.b64encode(body).decode()
    began_ms = time() * 1_000
    await topic.send(body_base64=encoded, id="o-1", delay=300, headers={"tenant": "t-7", "n": 5})

    calls = await receiver.some(3)

    assert attempts(calls) == ["1", "2", "3"]
    assert {call.headers["webhook-id"] for call in calls} == {calls[0].headers["webhook-id"]}
    for call in calls:
        assert call.body == body
        assert Webhook(SECRET).verify(body, dict(call.headers)) == {"order": 1001, "price": 1.5}
        assert (call.target, call.headers["content-type"]) == ("/hook", "application/json")
        assert (call.headers["x-delay-topic"], call.headers["x-delay-id"]) == (topic.name, "o-1")
        assert call.headers["x-delay-headers"] == '{"n":5,"tenant":"t-7"}'
    assert calls[0].at_ms >= began_ms + 300
    assert calls[1].at_ms >= calls[0].at_ms + 300
    assert (await topic.until_state("o-1", "acked"))["attempts"] == 3
    subscription = await until_subscription(topic, delivered=1, failed=2)
    assert (subscription["state"], subscription["secrets"], "secret" in subscription) == ("active", 1, False)
    assert (subscription["last_failure"]["id"], subscription["last_failure"]["detail"]) == ("o-1", "answered 404")
    assert SECRET.removeprefix("whsec_") not in str(subscription)


async def test_a_connection_is_reused_and_binary_bodies_are_unchanged(topic: Topic, receiver: Receiver) -> None:
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


async def test_a_receiver_that_never_answers_dead_letters_the_message(topic: Topic, receiver: Receiver) -> None:
    async def never(received: Received) -> bytes:
        await asyncio.get_running_loop().create_future()
        raise AssertionError

    receiver.reply = never
    await subscribe(topic, receiver, timeout="1s")
    await topic.send(id="o-1", max_retry=1)

    calls = await receiver.some(2)

    assert attempts(calls) == ["1", "2"]
    assert (await topic.until_state("o-1", "dead"))["reason"] == "callback: no answer within 1000 ms"
    assert receiver.calls.empty()
    assert (await until_subscription(topic, failed=2))["last_failure"]["reason"] == "timeout"


@pytest.mark.parametrize(
    ("written", "reason"),
    [
        (answer(302, location="/elsewhere"), "redirect"),
        (b"this is no HTTP\r\n\r\n", "connection"),
        (answer(503), "status"),
    ],
    ids=["redirect", "nonsense", "503"],
)
async def test_an_answer_other_than_2xx_is_a_failed_attempt(
    topic: Topic, receiver: Receiver, written: bytes, reason: str
) -> None:
    receiver.then = [written]
    await subscribe(topic, receiver)
    await topic.send(id="o-1")

    calls = await receiver.some(2)

    assert [call.target for call in calls] == ["/hook", "/hook"]  # a redirect is not followed
    assert attempts(calls) == ["1", "2"]
    await topic.until_state("o-1", "acked")
    assert (await until_subscription(topic, delivered=1))["last_failure"]["reason"] == reason


@pytest.mark.parametrize(
    "written",
    [answer(200, b"x" * 200_000), answer(200, b"x" * 9)[:-5]],
    ids=["long", "a body that never ends"],
)
async def test_the_status_of_an_answer_decides_whatever_its_body(
    topic: Topic, receiver: Receiver, written: bytes
) -> None:
    receiver.then = [written]
    await subscribe(topic, receiver)
    await topic.send(id="o-1", max_retry=0)
    await receiver.some(1)
    await topic.until_state("o-1", "acked")
    assert (await until_subscription(topic, delivered=1))["failed"] == 0


async def test_a_refused_connection_is_a_failed_attempt(topic: Topic, receiver: Receiver) -> None:
    await subscribe(topic, receiver, url=f"http://127.0.0.1:{free_ports(1)[0]}/")
    await topic.send(id="o-1", max_retry=0)

    await topic.until_state("o-1", "dead")

    assert (await until_subscription(topic, failed=1))["last_failure"]["reason"] == "connection"


async def test_410_ends_the_subscription_and_requeues_the_message(topic: Topic, receiver: Receiver) -> None:
    receiver.then = [answer(410)]
    await subscribe(topic, receiver)
    await topic.send(id="o-1")
    await receiver.some(1)

    subscription = await until_subscription(topic, state="ended")

    assert subscription["ended_at"] is not None
    left = await topic.pull_one()
    assert (left["id"], left["attempts"]) == ("o-1", 1)  # the 410 counted no attempt
    await topic.nack(left)
    assert (await subscribe(topic, receiver))["state"] == "active"
    (call,) = await receiver.some(1)
    assert call.headers["x-delay-id"] == "o-1"


@pytest.mark.parametrize("status", [429, 503])
async def test_a_busy_receiver_is_not_called_before_retry_after_and_no_attempt_is_counted(
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
    subscription = await until_subscription(topic, delivered=3)
    assert (subscription["failed"], subscription["state"]) == (0, "active")


async def test_a_slow_receiver_does_not_delay_other_topics(topic: Topic, receiver: Receiver) -> None:
    release = asyncio.Event()

    async def slowly(received: Received) -> bytes:
        await release.wait()
        return answer()

    other = topic.beside("other")
    async with receiving() as slow:
        slow.reply = slowly
        await subscribe(topic, slow, concurrency=2, timeout="60s")
        await subscribe(other, receiver)
        for number in range(5):
            await topic.send(id=f"slow-{number}")
        await slow.some(2)  # as many as `concurrency` allows
        for number in range(20):
            await other.send(id=f"{number}")
        ids = {call.headers["x-delay-id"] for call in await receiver.some(20)}
        assert slow.calls.empty()
        release.set()
        await slow.some(3)

    assert ids == {str(number) for number in range(20)}
