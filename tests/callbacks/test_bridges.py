"""Tests callbacks with several bridges, with a bridge that stops or dies, and with TLS."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import httpx2
import pytest
import trustme

from bridge.local.ports import free_ports
from bridge.local.rabbitmq import RabbitNode
from bridge.local.redis import RedisNode
from tests.callbacks.receiver import Received, Receiver, answer, receiving
from tests.callbacks.subscribing import attempts, subscribe, until_subscription
from tests.forked_bridge import ForkedBridge
from tests.integration.own import Own, own_bridge
from tests.integration.topic import Topic
from tests.logged import until_logged
from tests.waiting import pause


@pytest.fixture(scope="module")
def second(calling: Own) -> Iterator[ForkedBridge]:
    """A second bridge on the same servers, which makes calls too."""
    log_file = calling.bridge.log_file.parent / "second" / "bridge.log"
    with ForkedBridge(log_file, free_ports(1)[0], calling.settings) as second:
        yield second


@pytest.mark.usefixtures("second")
async def test_no_process_calls_a_busy_receiver_before_retry_after(topic: Topic, receiver: Receiver) -> None:
    receiver.then = [answer(429, retry_after="3")]
    await subscribe(topic, receiver, concurrency=1)
    await topic.send(id="o-1")
    (first,) = await receiver.some(1)
    await until_subscription(topic, state="held")
    for number in range(5):
        await topic.send(id=f"later-{number}")
    calls = await receiver.some(6)

    assert min(call.at_ms for call in calls) >= first.at_ms + 3_000


@pytest.mark.usefixtures("second")
async def test_two_bridges_call_each_message_once(topic: Topic, receiver: Receiver) -> None:
    await subscribe(topic, receiver)
    await topic.send_many(*({"id": f"{number}", "body": number} for number in range(100)))
    ids = [call.headers["x-delay-id"] for call in await receiver.some(100)]
    await until_subscription(topic, delivered=100)

    assert sorted(ids, key=int) == [str(number) for number in range(100)]
    assert receiver.calls.empty()


@pytest.mark.parametrize("change", ["remove", "replace", "end"])
async def test_no_process_calls_for_a_subscription_that_is_gone(
    topic: Topic, receiver: Receiver, second: ForkedBridge, change: str
) -> None:
    await subscribe(topic, receiver)
    await until_logged(second, "push.started", topic=topic.name)
    match change:
        case "remove":
            await topic.call("DELETE", "/subscription")
        case "replace":
            await subscribe(topic, receiver, url=receiver.url + "/later", concurrency=1)
        case _:
            receiver.then = [answer(410)]
            await topic.send(id="last", max_retry=0)
            await receiver.some(1)
            await until_subscription(topic, state="ended")
            assert [message["id"] for message in await topic.pull()] == ["last"]
    sent = [f"{number}" for number in range(20)]
    await topic.send_many(*({"id": one, "body": 1, "max_retry": 0} for one in sent))

    if change == "replace":
        assert {call.target for call in await receiver.some(20)} == {"/hook/later"}
    else:
        assert sorted(await topic.pull_ids(20), key=int) == sent
    assert receiver.calls.empty()


async def test_a_bridge_checks_the_address_of_a_subscription_that_another_bridge_accepted(
    rabbit: RabbitNode, redis_node: RedisNode, local_dir: Path, receiver: Receiver
) -> None:
    """One bridge accepts the subscription. Another bridge with stricter settings makes the call."""
    async with own_bridge(
        rabbit,
        redis_node.url,
        local_dir / "lenient",
        BRIDGE_ROLES="api,checkpoint",
        BRIDGE_PUSH_ALLOW="http://127.0.0.0/8",
    ) as own:
        strict = ForkedBridge(
            own.bridge.log_file.parent / "strict" / "bridge.log",
            free_ports(1)[0],
            {**own.settings, "BRIDGE_ROLES": "push", "BRIDGE_PUSH_ALLOW": "http://10.0.0.0/8"},
        )
        await subscribe(own.topic, receiver, url=f"http://localhost:{receiver.port}/")
        await own.topic.send(id="o-1", max_retry=0)
        with strict:
            await own.topic.until_state("o-1", "dead")
            subscription = await until_subscription(own.topic, failed=1)

    assert subscription["last_failure"]["reason"] == "address"
    assert receiver.connections == 0


async def test_tls_verifies_the_certificate_for_the_hosts_name(
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
        subscription = await until_subscription(other, failed=1)

    assert call.headers["host"] == f"localhost:{right_one.port}"
    assert set(names) == {"localhost"}
    assert "certificate" in subscription["last_failure"]["detail"].lower()
    assert wrong_one.calls.empty()


async def test_after_a_kill_during_a_call_the_lease_expires_and_the_call_is_repeated(
    rabbit: RabbitNode, redis_node: RedisNode, local_dir: Path, receiver: Receiver
) -> None:
    async def never(received: Received) -> bytes:
        await asyncio.get_running_loop().create_future()
        raise AssertionError

    receiver.reply = never
    allow = {"BRIDGE_PUSH_ALLOW": "http://127.0.0.1"}
    async with own_bridge(rabbit, redis_node.url, local_dir / "killed", **allow) as own:
        await subscribe(own.topic, receiver, timeout="4s")
        await own.topic.send(id=f"o-{uuid4().hex}")
        (first,) = await receiver.some(1)
        await asyncio.to_thread(own.bridge.kill)
        receiver.reply = None
        await asyncio.to_thread(own.bridge.start)
        (again,) = await receiver.some(1)
        await own.topic.until_state(first.headers["x-delay-id"], "acked")

    assert again.headers["x-delay-id"] == first.headers["x-delay-id"]
    assert again.headers["webhook-id"] == first.headers["webhook-id"]
    assert attempts([first, again]) == ["1", "2"]
    assert again.at_ms >= first.at_ms + 4_000  # not before the call has timed out


async def until_port_closed(client: httpx2.AsyncClient) -> None:
    """Waits until the bridge has closed its port."""
    while True:
        try:
            await client.get("/health/live")
        except httpx2.TransportError:
            return
        await pause()


async def test_a_stopping_bridge_waits_for_its_calls(
    rabbit: RabbitNode, redis_node: RedisNode, local_dir: Path, receiver: Receiver
) -> None:
    release = asyncio.Event()

    async def slowly(received: Received) -> bytes:
        await release.wait()
        return answer()

    receiver.reply = slowly
    further = {"BRIDGE_PUSH_ALLOW": "http://127.0.0.1", "BRIDGE_DRAIN": "10ms", "BRIDGE_GRACE": "60s"}
    async with own_bridge(rabbit, redis_node.url, local_dir / "ended", **further) as own:
        await subscribe(own.topic, receiver, timeout="60s")
        await own.topic.send(id="o-1")
        await receiver.some(1)
        ending = asyncio.create_task(asyncio.to_thread(own.bridge.stop))
        await until_port_closed(own.topic.client)
        release.set()
        await ending
        await asyncio.to_thread(own.bridge.start)
        assert (await own.topic.look("o-1"))["state"] == "acked"
    assert receiver.calls.empty()
