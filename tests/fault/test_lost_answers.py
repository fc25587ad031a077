"""Tests that a lost answer of RabbitMQ or Redis promises nothing and does no harm."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx2
import pytest
import pytest_asyncio

from bridge.store.scripts import SCRIPTS
from tests.fault.api import Api, instant_ms, now_ms
from tests.fault.stage import Stage, started
from tests.forked_bridge import ForkedBridge
from tests.proxy import Proxy

SHORT_MS = 4_000  # a lease that has its lease copy at once


@pytest_asyncio.fixture(scope="module")
async def amqp(stage: Stage) -> AsyncIterator[Proxy]:
    async with Proxy(stage.rabbit.amqp_url) as proxy:
        yield proxy


@pytest_asyncio.fixture(scope="module")
async def redis(stage: Stage) -> AsyncIterator[Proxy]:
    async with Proxy(stage.redis.url) as proxy:
        yield proxy


@pytest_asyncio.fixture(scope="module")
async def bridge(stage: Stage, amqp: Proxy, redis: Proxy) -> AsyncIterator[ForkedBridge]:
    bridge = stage.bridge(amqp_url=amqp.url, redis_url=redis.url)
    await started(bridge)
    yield bridge
    bridge.kill()


@pytest.fixture
def api(bridge: ForkedBridge, http: httpx2.AsyncClient) -> Api:
    return Api(http, bridge.url)


async def warm_up(api: Api, topic: str) -> None:
    """Loads every script into Redis and declares the topic, so that the next answer is the one to lose."""
    await api.sent(topic, "first", delay=60_000)
    assert (await api.call("DELETE", f"/v1/topics/{topic}/messages/first")).status_code == 200
    await api.sent(topic, "second")
    second = await api.pull_one(topic)
    assert await api.ack(topic, [second["receipt"]]) == ["acked"]


def refused(response: httpx2.Response) -> bool:
    return (
        response.status_code == 503
        and response.headers["content-type"] == "application/problem+json"
        and int(response.headers["retry-after"]) >= 1
    )


@pytest.mark.parametrize("delay_ms", [0, 300])
async def test_send_with_a_lost_confirm_is_refused_and_its_retry_gives_one_message(
    api: Api, amqp: Proxy, delay_ms: int
) -> None:
    topic = f"confirm-{delay_ms}"
    await warm_up(api, topic)
    amqp.lose_the_answer_to(b"the-one")
    response = await api.send(topic, "the-one", delay=delay_ms)
    assert amqp.lost.is_set()
    assert refused(response)
    await api.sent(topic, "the-one", delay=delay_ms)
    assert [one["id"] for one in await api.drain(topic, 1)] == ["the-one"]


@pytest.mark.parametrize("script", ["schedule", "confirm"])
async def test_send_with_a_lost_script_answer_is_refused_and_its_retry_gives_one_message(
    api: Api, redis: Proxy, script: str
) -> None:
    topic = f"script-{script}"
    await warm_up(api, topic)
    redis.lose_the_answer_to(SCRIPTS[script].sha.encode())
    response = await api.send(topic, "the-one", delay=300)
    assert redis.lost.is_set()
    assert refused(response)
    # An unconfirmed claim can be taken over after 10 s.
    await api.sent(topic, "the-one", delay=300)
    assert [one["id"] for one in await api.drain(topic, 1)] == ["the-one"]


async def test_repeated_send_whose_refused_message_was_consumed_gives_no_second_message(api: Api, amqp: Proxy) -> None:
    topic = "consumed"
    await warm_up(api, topic)
    amqp.lose_the_answer_to(b"the-one")
    assert refused(await api.send(topic, "the-one"))
    consumed = await api.pull_one(topic)
    assert await api.ack(topic, [consumed["receipt"]]) == ["acked"]
    again = await api.insist("POST", f"/v1/topics/{topic}/messages", {"id": "the-one", "body": "the-one"})
    assert (again.status_code, again.json()["state"]) == (200, "acked")
    assert await api.drain(topic, 0) == []
    # That send was answered, so the id can be used again.
    anew = await api.insist("POST", f"/v1/topics/{topic}/messages", {"id": "the-one", "body": "the-one"})
    assert anew.status_code == 201
    assert [one["id"] for one in await api.drain(topic, 1)] == ["the-one"]


async def test_lease_with_a_lost_answer_ends_like_any_other(api: Api, redis: Proxy) -> None:
    topic = "script-lease"
    await warm_up(api, topic)
    await api.sent(topic, "the-one")
    redis.lose_the_answer_to(SCRIPTS["lease"].sha.encode())
    response = await api.call("POST", f"/v1/topics/{topic}/pull", {"wait": 5_000, "lease": 4_000})
    assert redis.lost.is_set()
    assert refused(response)
    lease_until_ms = instant_ms((await api.look(topic, "the-one"))["lease_until"])
    again = await api.pull_one(topic)
    assert now_ms() >= lease_until_ms
    assert (again["id"], again["attempts"]) == ("the-one", 2)
    assert await api.ack(topic, [again["receipt"]]) == ["acked"]
    assert await api.drain(topic, 0) == []


async def test_lease_copy_with_a_lost_confirm_leaves_one_message_to_pull(api: Api, amqp: Proxy) -> None:
    topic = "confirm-lease"
    await warm_up(api, topic)
    await api.sent(topic, "the-one")
    amqp.lose_the_answer_to(b"the-one")
    response = await api.call("POST", f"/v1/topics/{topic}/pull", {"wait": 5_000, "lease": SHORT_MS})
    assert amqp.lost.is_set()
    # The bridge refuses the pull, or it requeues the message over a new connection and leases it again.
    assert refused(response) or response.json()["messages"]
    again = response.json()["messages"][0] if response.status_code == 200 else await api.pull_one(topic)
    assert again["id"] == "the-one"
    assert await api.ack(topic, [again["receipt"]]) == ["acked"]
    assert await api.drain(topic, 0) == []


@pytest.mark.parametrize(
    ("script", "call", "state"),
    [
        ("ack", ("POST", "/messages/the-one/ack", {}), "acked"),
        ("nack", ("POST", "/messages/the-one/nack", {"delay": 300}), "waiting"),
        ("delete", ("DELETE", "/messages/the-one", None), "deleted"),
    ],
)
async def test_settlement_with_a_lost_answer_is_refused_and_takes_effect(
    api: Api, redis: Proxy, script: str, call: tuple[str, str, object], state: str
) -> None:
    topic, (method, path, body) = f"script-{script}", call
    await warm_up(api, topic)
    await api.sent(topic, "the-one")
    assert (await api.pull_one(topic))["attempts"] == 1
    if script == "nack":  # loads the script into Redis
        await api.insist(method, f"/v1/topics/{topic}{path}", body)
        assert (await api.pull_one(topic))["attempts"] == 2
    redis.lose_the_answer_to(SCRIPTS[script].sha.encode())
    response = await api.call(method, f"/v1/topics/{topic}{path}", body)
    assert redis.lost.is_set()
    assert refused(response)
    assert (await api.look(topic, "the-one"))["state"] in (state, "ready")  # a waiting message may be due by now
    again = await api.insist(method, f"/v1/topics/{topic}{path}", body)
    assert again.status_code == (409 if script == "nack" else 200)
    expected = ["the-one"] if script == "nack" else []
    assert [one["id"] for one in await api.drain(topic, len(expected))] == expected
