"""Tests that a token makes no more topics than its limit, over all processes and by every call that makes topics."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from time import time
from typing import Any
from uuid import uuid4

import aio_pika
import httpx2
import pytest
import pytest_asyncio

from bridge.local.rabbitmq import RabbitNode
from bridge.store.client import Store
from bridge.store.kept.made_topics import MadeTopics
from bridge.store.keys import Keys
from bridge.store.replies import binaries, texts, whole
from tests.access.conftest import Mint, id_of
from tests.integration.amqp import Amqp

LISTED, LATE, WAITS = 0, 1, int(time() * 1_000) + 3_600_000
_MESSAGE = {"body": 1, "delay": "1h"}

Headers = dict[str, str]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def amqp(rabbit: RabbitNode) -> AsyncIterator[Amqp]:
    async with await aio_pika.connect(rabbit.amqp_url) as connection:
        yield Amqp(connection)


@pytest.mark.parametrize(
    ("limit", "listed", "made", "topic", "answer", "left"),
    [
        (2, "", {}, "a", 0, "a"),
        (2, "a", {"a": LISTED}, "b", 0, "ab"),
        (1, "a", {"a": LISTED}, "b", 1, "a"),
        (1, "a", {"a": LISTED}, "a", 0, "a"),
        (1, "ax", {"a": LISTED}, "x", 0, "a"),  # another client made x
        (1, "", {"a": LISTED}, "b", 0, "b"),  # a was removed
        (1, "", {"a": LISTED}, "a", 0, "a"),
        (1, "", {"a": WAITS}, "b", 1, "a"),  # a is being made
        (1, "", {"a": WAITS}, "a", 0, "a"),
        (1, "", {"a": LATE}, "b", 0, "b"),  # the process that was making a has died
        (1, "a", {"a": LATE}, "b", 1, "a"),
        (1, "abc", {"a": LISTED, "b": LISTED, "c": LISTED}, "d", 3, "abc"),  # the limit was higher
        (1, "b", {"a": LISTED, "b": LISTED}, "a", 1, "b"),
    ],
)
async def test_new_topic_takes_a_place_that_is_left(
    *, store: Store, limit: int, listed: str, made: dict[str, int], topic: str, answer: int, left: str
) -> None:
    keys = Keys(f"made-{uuid4().hex[:12]}")
    for name in listed:
        await store.command("SADD", keys.topics, name)
    for name, score in made.items():
        await store.command("ZADD", keys.made_topics("t"), score, name)

    assert await MadeTopics(store, keys).count("t", topic, limit) == answer

    assert sorted(texts(await store.command("ZRANGE", keys.made_topics("t"), 0, -1))) == [*left]
    assert sorted(texts(await store.command("SMEMBERS", keys.topics))) == [*listed]
    assert 364 * 86_400_000 < whole(await store.command("PTTL", keys.made_topics("t"))) <= 365 * 86_400_000


async def test_place_of_a_topic_that_is_not_listed_in_time_ends(store: Store) -> None:
    keys = Keys(f"made-{uuid4().hex[:12]}")
    made = MadeTopics(store, keys)
    assert await store.run([made.call("t", "a", 1, hold_ms=0)]) == [0]
    assert await store.run([made.call("t", "b", 1)]) == [0]
    assert await store.run([made.call("t", "a", 1)]) == [1]


async def test_topics_counted_at_once_get_no_more_places_than_the_limit(store: Store) -> None:
    made = MadeTopics(store, Keys(f"made-{uuid4().hex[:12]}"))
    answers = await asyncio.gather(*(made.count("t", f"topic-{at}", 20) for at in range(100)))
    assert (answers.count(0), answers.count(20)) == (20, 80)


async def send(client: httpx2.AsyncClient, topic: str, headers: Headers) -> httpx2.Response:
    return await client.post(f"/v1/topics/{topic.replace('/', '%2F')}/messages", json=_MESSAGE, headers=headers)


async def topics_of(client: httpx2.AsyncClient, headers: Headers) -> set[str]:
    return {one["topic"] for one in (await client.get("/v1/topics", headers=headers)).json()["topics"]}


async def test_first_sends_at_once_over_two_processes_make_as_many_topics_as_the_limit(
    clients: list[httpx2.AsyncClient], mint: Mint, amqp: Amqp
) -> None:
    namespace = f"n-{uuid4().hex[:12]}"
    header = await mint.make("send", namespaces=[namespace], max_topics=3)
    topics = [f"{namespace}/t{at}" for at in range(8)]

    answers = await asyncio.gather(*(send(clients[at % 2], topic, header) for at, topic in enumerate(topics)))

    made = {topic for topic, answer in zip(topics, answers, strict=True) if answer.status_code == 201}
    assert len(made) == 3
    assert await topics_of(clients[0], header) == made
    for topic, answer in zip(topics, answers, strict=True):
        if topic in made:
            continue
        reason = "is new, and this token has made 3 topics that exist; its limit is 3: remove one of them"
        problem = answer.json()
        assert (answer.status_code, problem["type"]) == (403, "urn:problem-type:delaybridge:too-many-topics")
        assert problem["detail"] == f"the topic '{topic}' {reason}"
        assert problem["errors"] == [{"field": "topic", "value": topic, "limit": 3, "message": reason}]
        assert await amqp.count(f"ready.{topic}") is None
    # Both processes may send on to each of the three, and to no other.
    for client in clients:
        assert [(await send(client, topic, header)).status_code == 201 for topic in topics] == [
            topic in made for topic in topics
        ]


async def test_removed_topic_counts_no_more(clients: list[httpx2.AsyncClient], mint: Mint) -> None:
    namespace = f"n-{uuid4().hex[:12]}"
    header = await mint.make("send", "admin", namespaces=[namespace], max_topics=1)
    one, other = f"{namespace}/one", f"{namespace}/other"
    assert [(await send(clients[0], topic, header)).status_code for topic in (one, other)] == [201, 403]

    removed = await clients[0].delete(f"/v1/namespaces/{namespace}/topics/one?force=true", headers=header)

    assert removed.status_code == 200
    assert [(await send(client, other, header)).status_code for client in clients] == [201, 201]
    assert [(await send(client, one, header)).status_code for client in clients] == [403, 403]
    assert await topics_of(clients[0], header) == {other}


async def test_topics_of_other_clients_are_free(clients: list[httpx2.AsyncClient], mint: Mint, store: Store) -> None:
    namespace = f"n-{uuid4().hex[:12]}"
    owner, header = await mint.make("send"), await mint.make("send", namespaces=[namespace], max_topics=1)
    theirs, lost = f"{namespace}/theirs", f"{namespace}/lost"
    for topic in (theirs, lost):
        assert (await send(clients[0], topic, owner)).status_code == 201
    assert (await send(clients[0], f"{namespace}/own", header)).status_code == 201
    assert (await send(clients[0], f"{namespace}/further", header)).status_code == 403
    assert (await send(clients[0], theirs, header)).status_code == 201

    await store.command("SREM", Keys("delay").topics, lost)  # RabbitMQ has its queues

    assert (await send(clients[1], lost, header)).status_code == 201
    assert await store.command("ZRANGE", Keys("delay").made_topics(id_of(header)), 0, -1) == [
        f"{namespace}/own".encode()
    ]


Call = tuple[str, str, dict[str, Any]]
"""Method, path and the keyword arguments of the request. The topic's name replaces NAME in all of them."""

_JOB = {"topic": "NAME", "id": "NAME", "delay": 60, "ttr": 60, "body": "a"}
_TASK = {"topic": "NAME", "timing_moment": int(time()) + 3_600}
_RECEIVER = {"url": "https://hooks.example/"}
_SUBSCRIPTION = {**_RECEIVER, "secret": "whsec_MDEyMzQ1Njc4OWFiY2RlZmdoaWprbG1ub3BxcnN0dXY="}
CALLS: dict[str, tuple[Call, str]] = {
    # The call, and the member of its answer that has the reason.
    "send": (("POST", "/v1/topics/NAME/messages", {"json": _MESSAGE}), "detail"),
    "policy": (("PUT", "/v1/topics/NAME", {"json": {"lease": "1m"}}), "detail"),
    "subscription": (("PUT", "/v1/topics/NAME/subscription", {"json": _SUBSCRIPTION}), "detail"),
    "camellia": (
        ("POST", "/camellia/delayQueue/sendMsg", {"data": {"topic": "NAME", "msg": "a", "delayMillis": 60_000}}),
        "msg",
    ),
    "ouqiang": (("POST", "/push", {"json": _JOB}), "message"),
    "youzan": (("POST", "/youzan", {"json": {"command": "add", **_JOB}}), "error"),
    "changsongl": (("POST", "/topic/NAME/job", {"json": _JOB}), "message"),
    "task": (("POST", "/delay/task/add", {"json": {**_TASK, "content": "a"}}), "error_msg"),
    "task with a url": (("POST", "/delay/task/add", {"json": {**_TASK, "content": _RECEIVER}}), "error_msg"),
}


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def full(client: httpx2.AsyncClient, mint: Mint) -> Headers:
    """A token that may make no more topics."""
    header = await mint.make("send", "admin", max_topics=1)
    assert (await send(client, f"full-{uuid4().hex[:12]}", header)).status_code == 201
    return header


@pytest.mark.parametrize(("call", "member"), CALLS.values(), ids=CALLS)
async def test_call_that_would_make_a_topic_too_many_makes_nothing(
    *, client: httpx2.AsyncClient, full: Headers, store: Store, amqp: Amqp, call: Call, member: str
) -> None:
    name = f"refused-{uuid4().hex[:12]}"
    method, path, rest = json.loads(json.dumps(call).replace("NAME", name))

    answer = await client.request(method, path, **rest, headers=full)

    assert answer.status_code == 403
    reason = answer.json()[member]
    assert f"'{name}" in reason
    assert "this token has made 1 topics that exist; its limit is 1" in reason
    assert [key for answered in await store.command_each("KEYS", f"*{name}*") for key in binaries(answered)] == []
    for listed in (
        await store.command("SMEMBERS", "delay/topics"),
        await store.command("HKEYS", "delay/subscriptions"),
    ):
        assert [member for member in binaries(listed) if name.encode() in member] == []
    for topic in (name, f"{name}.callbacks"):
        assert await amqp.count(f"ready.{topic}") is None
        assert await amqp.count(f"dead.{topic}") is None


async def test_each_message_of_a_batch_is_refused(client: httpx2.AsyncClient, full: Headers) -> None:
    path = f"/v1/topics/refused-{uuid4().hex[:12]}/messages/batch"
    answer = await client.post(path, json={"messages": [{"body": 1}] * 300}, headers=full)
    assert [result["status"] for result in answer.json()["results"]] == [403] * 300
    assert {result["error"]["type"] for result in answer.json()["results"]} == {
        "urn:problem-type:delaybridge:too-many-topics"
    }


async def test_refused_topics_are_counted_and_logged(client: httpx2.AsyncClient, full: Headers, mint: Mint) -> None:
    assert (await send(client, f"refused-{uuid4().hex[:12]}", full)).status_code == 403
    text = (await client.get("/metrics", headers=await mint.make("look"))).text
    assert 'delaybridge_access_refused_total{kind="too_many_topics"}' in text
