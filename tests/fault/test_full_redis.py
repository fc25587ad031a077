"""Tests a Redis whose disk or memory is full: it accepts no message, and no accepted message is lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from uuid import uuid4

import httpx2
import pytest
from redis.asyncio import Redis

from bridge.local.redis import AppendFsync, RedisNode
from tests.fault.api import Api
from tests.fault.stage import Stage, started
from tests.shared_servers import SharedRabbit
from tests.small_disk import SmallDisk
from tests.vhosts import give_back_vhost, take_vhost
from tests.waiting import pause

Full = Callable[[RedisNode], AbstractAsyncContextManager[None]]


@asynccontextmanager
async def disk_full(redis: RedisNode) -> AsyncIterator[None]:
    assert isinstance(redis, SmallDisk)
    redis.fill()
    try:
        yield
    finally:
        redis.clear()


@asynccontextmanager
async def memory_full(redis_url: str) -> AsyncIterator[None]:
    async with Redis.from_url(redis_url) as client:
        await client.config_set("maxmemory", "1mb")
        try:
            yield
        finally:
            await client.config_set("maxmemory", "0")


@asynccontextmanager
async def bridge_on(stage: Stage, folder: Path, fsync: AppendFsync, topic: str) -> AsyncIterator[tuple[str, SmallDisk]]:
    """A bridge with a private Redis, and a private virtual host of the stage's broker."""
    redis = SmallDisk(folder / f"redis-{topic}", appendfsync=fsync)
    assert isinstance(stage.rabbit, SharedRabbit)
    own = stage.rabbit.at(take_vhost(stage.rabbit))
    bridge = stage.bridge(amqp_url=own.amqp_url, redis_url=redis.url)
    await started(redis)
    await started(bridge)
    try:
        yield bridge.url, redis
    finally:
        bridge.kill()
        redis.kill()
        give_back_vhost(own, own.vhost)


async def refused(api: Api, topic: str) -> str:
    """Sends until a send is refused, as the first may still find room. Returns the detail of the refusal."""
    while True:
        body = {"id": f"probe-{uuid4().hex}", "body": 1, "delay": 100}
        answer = await api.call("POST", f"/v1/topics/{topic}/messages", body)
        if answer.status_code == 503:
            detail: str = answer.json()["detail"]
            return detail
        assert answer.status_code == 201, answer.text
        await pause()


@pytest.mark.parametrize(
    ("full", "says"),
    [(disk_full, "MISCONF"), (lambda redis: memory_full(redis.url), "maxmemory")],
    ids=["disk", "memory"],
)
async def test_full_redis_refuses_sends_and_loses_no_accepted_message(
    stage: Stage, local_dir: Path, http: httpx2.AsyncClient, full: Full, says: str
) -> None:
    topic = f"full-{says.lower()}"
    async with bridge_on(stage, local_dir, "everysec", topic) as (url, redis):
        api = Api(http, url)
        await api.sent(topic, "ready")
        await api.sent(topic, "due-meanwhile", delay=5_000)
        async with full(redis):
            assert says in await refused(api, topic)
            # The second refusal has the same reason, so it does not come from the breaker.
            assert says in await refused(api, topic)
            waiting = ""
            while says not in waiting:
                health = (await api.call("GET", "/health/ready")).json()
                waiting = health["parts"]["checkpoint"]
                await pause()
        await api.insist("GET", "/health/ready")
        await api.sent(topic, "after", delay=100)
        got: set[str] = set()
        while not got >= {"ready", "due-meanwhile", "after"}:
            got |= {one["id"] for one in await api.drain(topic, 1)}


async def test_a_send_that_a_full_redis_refuses_is_not_delivered(
    stage: Stage, local_dir: Path, http: httpx2.AsyncClient
) -> None:
    topic = "full-sends"
    async with bridge_on(stage, local_dir, "everysec", topic) as (url, redis):
        api = Api(http, url)
        for number in range(3):
            await api.sent(topic, f"again-{number}")
            await api.sent(topic, f"dead-{number}", max_retry=0)
        left = 6
        while left:
            for message in await api.pull(topic, wait_ms=30_000):
                settle = "ack" if message["id"].startswith("again") else "nack"
                path, body = f"messages/{message['id']}/{settle}", {"receipt": message["receipt"]}
                assert (await api.call("POST", f"/v1/topics/{topic}/{path}", body)).status_code == 200
                left -= 1
        accepted: set[str] = set()
        async with memory_full(redis.url):
            # The first of those without an id may be accepted: nobody knows their ids, so they claim none.
            for number in range(6):
                answer = await api.call("POST", f"/v1/topics/{topic}/messages", {"body": 1, "delay": "30s"})
                assert answer.status_code == (503 if number else 201)
                if answer.is_success:
                    accepted.add(answer.json()["id"])
                    assert (await api.call("DELETE", f"/v1/topics/{topic}/messages/{answer.json()['id']}")).is_success
            for name in [*(f"{kind}-{number}" for kind in ("new", "again", "dead") for number in range(3))]:
                body = {"id": name, "body": "refused", "delay": 1_000}
                answer = await api.call("POST", f"/v1/topics/{topic}/messages", body)
                assert answer.status_code == 503
                assert "maxmemory" in answer.json()["detail"]
        await api.insist("GET", "/health/ready")
        for name in ("new-0", "again-0"):
            body = {"id": name, "body": "accepted", "delay": 1_500}
            assert (await api.call("POST", f"/v1/topics/{topic}/messages", body)).status_code == 201
        assert len(accepted) == 1
        got = [(one["id"], one["body"]) for one in await api.drain(topic, 2)]
        assert sorted(got) == [("again-0", "accepted"), ("new-0", "accepted")]


async def test_redis_that_exits_on_a_full_disk_loses_no_accepted_message(
    stage: Stage, local_dir: Path, http: httpx2.AsyncClient
) -> None:
    """With `appendfsync always` Redis exits when a write fails."""
    topic = "full-always"
    async with bridge_on(stage, local_dir, "always", topic) as (url, redis):
        api = Api(http, url)
        await api.sent(topic, "ready")
        await api.sent(topic, "due-meanwhile", delay=1_500)
        redis.fill()
        await refused(api, topic)
        # A restart before Redis has exited would find its port taken.
        await asyncio.to_thread(redis.wait_until_stopped)
        await started(redis)
        await api.insist("GET", "/health/ready")
        await api.sent(topic, "after", delay=100)
        got: set[str] = set()
        while not got >= {"ready", "due-meanwhile", "after"}:
            got |= {one["id"] for one in await api.drain(topic, 1)}
