"""Tests that a send which is refused for its contents makes nothing: no topic, no queue, no record, no subscription."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import pytest_asyncio

from bridge.local.rabbitmq import RabbitNode
from bridge.local.redis import RedisNode
from bridge.store.client import Store
from bridge.store.replies import binaries
from tests.integration.own import Own, own_bridge

TOO_LONG_MS = 999 * 86_400_000 + 1
TOO_FAR = "2035-01-01T00:00:00Z"
TOO_FAR_S = 2_051_222_400
LARGE = "x" * (1024 * 1024 + 1)

Call = tuple[str, str, dict[str, Any]]
"""Method, path and the keyword arguments of the request. The topic's name replaces NAME in all of them."""

DAYS = "999 days"
BYTES = "1048576"


def task(content: Any) -> Call:
    return "POST", "/delay/task/add", {"json": {"topic": "NAME", "timing_moment": TOO_FAR_S, "content": content}}


def camellia(**form: Any) -> Call:
    return "POST", "/camellia/delayQueue/sendMsg", {"data": {"topic": "NAME", "msg": "a", "delayMillis": 0, **form}}


def native(**fields: Any) -> Call:
    return "POST", "/v1/topics/NAME/messages", {"json": {"body": 1, **fields}}


def batch(*timings: dict[str, Any]) -> Call:
    return "POST", "/v1/topics/NAME/messages/batch", {"json": {"messages": [{"body": 1, **when} for when in timings]}}


def ouqiang(**fields: Any) -> Call:
    return "POST", "/push", {"json": {"topic": "NAME", "id": "NAME", "delay": 1, "ttr": 1, "body": "a", **fields}}


def changsongl(**fields: Any) -> Call:
    return "POST", "/topic/NAME/job", {"json": {"id": "NAME", "delay": 1, "ttr": 1, "body": "a", **fields}}


def youzan(**fields: Any) -> Call:
    return "POST", "/", {"json": {"command": "add", "topic": "NAME", "id": "NAME", "body": "a", **fields}}


def lmstfy(query: str = "", body: str = "a") -> Call:
    return "PUT", f"/api/NAME/q?{query}", {"content": body}


REFUSED: dict[str, tuple[Call, str]] = {
    "native, delay": (native(delay=TOO_LONG_MS), DAYS),
    "native, deliver_at": (native(deliver_at=TOO_FAR), DAYS),
    "native, body": (native(body=LARGE), BYTES),
    "native, batch": (batch({"deliver_at": TOO_FAR}, {"delay": TOO_LONG_MS}), DAYS),
    "camellia, delay": (camellia(delayMillis=TOO_LONG_MS), DAYS),
    "camellia, body": (camellia(msg=LARGE), BYTES),
    "task, moment": (task("abc"), DAYS),
    "task with a url, moment": (task({"url": "https://hooks.example/"}), DAYS),
    "ouqiang, delay": (ouqiang(delay=1 << 31), DAYS),
    "ouqiang, body": (ouqiang(body=LARGE), BYTES),
    "changsongl, delay": (changsongl(delay=1 << 31), DAYS),
    "youzan, delay": (youzan(delay=1 << 31), "seconds"),
    "lmstfy, delay": (lmstfy(f"delay={1 << 31}&ttl=0"), "invalid delay"),
    "lmstfy, body": (lmstfy(body=LARGE), "body too large"),
}


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def own(rabbit: RabbitNode, redis_node: RedisNode, local_dir: Path) -> AsyncIterator[Own]:
    further = {"BRIDGE_LMSTFY_SKIP_VERIFICATION": "true"}
    async with own_bridge(rabbit, redis_node.url, local_dir / "refused", **further) as own:
        yield own


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def store(redis_node: RedisNode) -> AsyncIterator[Store]:
    store = Store(redis_node.url, timeout_ms=10_000)
    yield store
    await store.close()


@pytest.mark.parametrize(("call", "reason"), REFUSED.values(), ids=REFUSED)
async def test_a_refused_send_makes_nothing(own: Own, store: Store, call: Call, reason: str) -> None:
    name = f"refused-{uuid4().hex}"
    method, path, rest = json.loads(json.dumps(call).replace("NAME", name))

    answer = await own.topic.client.request(method, path, **rest)

    assert reason in answer.text
    keys = [key for answered in await store.command_each("KEYS", f"{own.vhost}/*") for key in binaries(answered)]
    assert [key for key in keys if name.encode() in key] == []
    for listed in (f"{own.vhost}/topics", f"{own.vhost}/subscriptions"):
        members = await store.command("SMEMBERS" if listed.endswith("topics") else "HKEYS", listed)
        assert [member for member in binaries(members) if name.encode() in member] == []
    for topic in (name, f"{name}.callbacks", f"{name}/q"):
        assert await own.amqp.count(f"ready.{topic}") is None
        assert await own.amqp.count(f"dead.{topic}") is None
