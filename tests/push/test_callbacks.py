"""Callbacks from a running bridge to a receiver: what is called, how often, and what becomes of the message.

Nothing sleeps: a test waits for calls, or for states.
"""

from __future__ import annotations

import asyncio
import base64
import ssl
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx2
import pytest
import trustme
from standardwebhooks.webhooks import Webhook

from bridge.local.bridge import BridgeProcess
from bridge.local.ports import free_ports
from bridge.local.rabbitmq import RabbitNode
from bridge.local.redis import RedisNode
from tests.integration.own import Own, own_bridge
from tests.integration.topic import Json, Topic, due_ms
from tests.push.receiver import Received, Receiver, answer, receiving

SECRET, OTHER_SECRET = ("whsec_" + base64.b64encode(bytes([byte]) * 32).decode() for byte in (7, 8))
SOON = ["300ms"]


async def subscribe(topic: Topic, receiver: Receiver, *, expect: int = 200, **fields: Any) -> Json:
    wanted = {"url": receiver.url, "secret": SECRET, "backoff": SOON, **fields}
    put: Json = await topic.call("PUT", "/subscription", wanted, expect=expect)
    return put


async def standing(topic: Topic) -> Json:
    found: Json = await topic.call("GET", "/subscription")
    return found


async def until_standing(topic: Topic, **wanted: Any) -> Json:
    """Looks until the subscription stands so; the test's time limit bounds it. A poll of nothing paces it."""
    while not wanted.items() <= (found := await standing(topic)).items():
        await Topic(topic.client, "idle").pull(wait=20)
    return found


async def until_deaf(client: httpx2.AsyncClient) -> None:
    """Until the bridge listens no more."""
    while True:
        try:
            await client.get("/health/live")
        except httpx2.TransportError:
            return


def attempts(calls: list[Received]) -> list[str]:
    return [call.headers["x-delay-attempt"] for call in calls]


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


async def test_another_process_leaves_it_alone_too(calling: Own, topic: Topic, receiver: Receiver) -> None:
    receiver.then = [answer(429, retry_after="3")]
    second = BridgeProcess(calling.bridge.log_file.parent / "second" / "bridge.log", free_ports(1)[0], calling.settings)
    with second:
        await subscribe(topic, receiver, concurrency=1)
        await topic.send(id="o-1")
        (first,) = await receiver.some(1)
        for number in range(5):
            await topic.send(id=f"later-{number}")
        calls = await receiver.some(6)

    assert min(call.at_ms for call in calls) >= first.at_ms + 3_000


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


async def test_a_subscription_removed_during_calls_lets_them_end_and_makes_no_more(
    topic: Topic, receiver: Receiver
) -> None:
    release = asyncio.Event()

    async def slowly(received: Received) -> bytes:
        await release.wait()
        return answer()

    receiver.say = slowly
    await subscribe(topic, receiver, concurrency=1, timeout="60s")
    await topic.send(id="under-way")
    await receiver.some(1)
    await topic.send(id="later")

    assert await topic.call("DELETE", "/subscription") == {"topic": topic.name, "removed": True}

    await topic.call("GET", "/subscription", expect=404)
    await topic.call("DELETE", "/subscription", expect=404)
    later = await topic.pull_one()
    assert (later["id"], later["attempts"]) == ("later", 1)
    release.set()
    await topic.until_state("under-way", "acked")
    assert receiver.calls.empty()


async def test_a_topic_that_is_removed_takes_its_subscription_along(topic: Topic, receiver: Receiver) -> None:
    await subscribe(topic, receiver)
    await topic.call("DELETE")
    await topic.call("GET", "/subscription", expect=404)


async def test_two_bridges_share_the_calls(calling: Own, topic: Topic, receiver: Receiver) -> None:
    second = BridgeProcess(calling.bridge.log_file.parent / "shared" / "bridge.log", free_ports(1)[0], calling.settings)
    with second:
        await subscribe(topic, receiver)
        await topic.send_many(*({"id": f"{number}", "body": number} for number in range(100)))
        ids = [call.headers["x-delay-id"] for call in await receiver.some(100)]
        await until_standing(topic, delivered=100)

    assert sorted(ids, key=int) == [str(number) for number in range(100)]
    assert receiver.calls.empty()


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("http://127.0.0.2/", "must be https"),
        ("https://127.0.0.2/", "leads to 127.0.0.2, which is no public address (loopback;"),
        ("https://[::ffff:169.254.169.254]/", "(link-local;"),
        ("https://2130706434/", "(loopback;"),
        ("https://0x7f.2/", "(loopback;"),
        ("https://user:secret@127.0.0.1/", "must be https://host"),
        (5, "must be https://host"),
    ],
)
async def test_a_url_that_callbacks_may_not_go_to_is_refused(
    topic: Topic, receiver: Receiver, url: object, says: str
) -> None:
    (error,) = (await subscribe(topic, receiver, url=url, expect=422))["errors"]

    assert (error["field"], error["value"]) == ("url", url)
    assert says in error["message"]
    await topic.call("GET", "/subscription", expect=404)


async def test_a_name_that_leads_to_this_machine_is_refused(bridge_url: str) -> None:
    """By a bridge whose settings allow nothing."""
    wanted = {"url": "https://localhost:8443/", "secret": SECRET}
    async with httpx2.AsyncClient(base_url=bridge_url, timeout=60) as client:
        refused = await Topic(client, "push-refused").call("PUT", "/subscription", wanted, expect=422)
    (error,) = refused["errors"]
    assert "which is no public address (loopback;" in error["message"]


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"secret": "whsec_c2hvcnQ="}, "secret"),
        ({"secret": [SECRET] * 6}, "secret"),
        ({"secret": []}, "secret"),
        ({"secret": None}, "secret"),
        ({"concurrency": 0}, "concurrency"),
        ({"concurrency": 101}, "concurrency"),
        ({"timeout": "999ms"}, "timeout"),
        ({"timeout": "301s"}, "timeout"),
        ({"backoff": []}, "backoff"),
        ({"retries": 3}, "retries"),
    ],
)
async def test_bad_input_is_refused_naming_the_field_and_no_secret(
    topic: Topic, receiver: Receiver, fields: Json, field: str
) -> None:
    refused = await subscribe(topic, receiver, expect=422, **fields)

    assert [error["field"] for error in refused["errors"]] == [field]
    assert refused["errors"][0]["limit"] is not None
    assert "whsec_c2" not in str(refused)
    assert SECRET not in str(refused)


async def test_the_address_is_checked_again_for_each_connection(
    rabbit: RabbitNode, redis_node: RedisNode, local_dir: Path, receiver: Receiver
) -> None:
    """A subscription that one bridge allowed is called by another that does not."""
    async with own_bridge(
        rabbit, redis_node.url, local_dir / "lenient", BRIDGE_PUSH="false", BRIDGE_PUSH_ALLOW="http://127.0.0.0/8"
    ) as own:
        strict = BridgeProcess(
            own.bridge.log_file.parent / "strict" / "bridge.log",
            free_ports(1)[0],
            {**own.settings, "BRIDGE_PUSH": "true", "BRIDGE_PUSH_ALLOW": "http://10.0.0.0/8"},
        )
        await subscribe(own.topic, receiver, url=f"http://localhost:{receiver.port}/")
        await own.topic.send(id="o-1", max_retry=0)
        with strict:
            await own.topic.until_state("o-1", "dead")
            stands = await until_standing(own.topic, failed=1)

    assert stands["last_failure"]["reason"] == "address"
    assert receiver.connections == 0


async def test_tls_asks_for_the_name_and_its_certificate(
    rabbit: RabbitNode, redis_node: RedisNode, local_dir: Path, tmp_path: Path
) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    names: list[str | None] = []
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(tls)
    tls.sni_callback = lambda _, name, __: names.append(name)
    wrong = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("other.example").configure_cert(wrong)
    further = {"BRIDGE_PUSH_ALLOW": "localhost", "BRIDGE_TLS_CA": str(tmp_path / "ca.pem")}
    async with (
        own_bridge(rabbit, redis_node.url, local_dir / "tls-push", **further) as own,
        receiving(tls) as right_one,
        receiving(wrong) as wrong_one,
    ):
        other = own.topic.beside("other")
        await subscribe(own.topic, right_one, url=f"https://localhost:{right_one.port}/hook")
        await subscribe(other, wrong_one, url=f"https://localhost:{wrong_one.port}/hook")
        await own.topic.send(id="o-1")
        await other.send(id="o-2", max_retry=0)
        (call,) = await right_one.some(1)
        await own.topic.until_state("o-1", "acked")
        await other.until_state("o-2", "dead")
        stands = await until_standing(other, failed=1)

    assert call.headers["host"] == f"localhost:{right_one.port}"
    assert set(names) == {"localhost"}
    assert "certificate" in stands["last_failure"]["detail"].lower()
    assert wrong_one.calls.empty()


async def test_a_bridge_killed_in_the_middle_of_a_call_leaves_a_lease_that_ends(
    rabbit: RabbitNode, redis_node: RedisNode, local_dir: Path, receiver: Receiver
) -> None:
    async def never(received: Received) -> bytes:
        await asyncio.get_running_loop().create_future()
        raise AssertionError

    receiver.say = never
    allow = {"BRIDGE_PUSH_ALLOW": "http://127.0.0.1"}
    async with own_bridge(rabbit, redis_node.url, local_dir / "killed", **allow) as own:
        await subscribe(own.topic, receiver, timeout="1s")
        await own.topic.send(id=f"o-{uuid4().hex}")
        (first,) = await receiver.some(1)
        await asyncio.to_thread(own.bridge.kill)
        receiver.say = None
        await asyncio.to_thread(own.bridge.start)
        (again,) = await receiver.some(1)
        await own.topic.until_state(first.headers["x-delay-id"], "acked")

    assert again.headers["x-delay-id"] == first.headers["x-delay-id"]
    assert again.headers["webhook-id"] == first.headers["webhook-id"]
    assert attempts([first, again]) == ["1", "2"]
    assert again.at_ms >= first.at_ms + 1_000  # not before the call could have ended


async def test_a_bridge_told_to_end_lets_its_calls_end(
    rabbit: RabbitNode, redis_node: RedisNode, local_dir: Path, receiver: Receiver
) -> None:
    release = asyncio.Event()

    async def slowly(received: Received) -> bytes:
        await release.wait()
        return answer()

    receiver.say = slowly
    further = {"BRIDGE_PUSH_ALLOW": "http://127.0.0.1", "BRIDGE_DRAIN": "10ms", "BRIDGE_GRACE": "60s"}
    async with own_bridge(rabbit, redis_node.url, local_dir / "ended", **further) as own:
        await subscribe(own.topic, receiver, timeout="60s")
        await own.topic.send(id="o-1")
        await receiver.some(1)
        ending = asyncio.create_task(asyncio.to_thread(own.bridge.stop))
        await until_deaf(own.topic.client)
        release.set()
        await ending
        await asyncio.to_thread(own.bridge.start)
        assert (await own.topic.look("o-1"))["state"] == "acked"
    assert receiver.calls.empty()
