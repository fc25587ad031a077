"""Tests a bridge with several pools on real servers: where messages are, and what fails when a pool is away."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote
from uuid import uuid4

import aio_pika
import httpx2
import pytest
from aio_pika.exceptions import ChannelNotFoundEntity

from bridge.local.ports import free_ports
from bridge.local.rabbitmq import RabbitNode
from bridge.local.redis import RedisNode
from tests.fault.stage import killed, started
from tests.forked_bridge import ForkedBridge
from tests.waiting import pause
from tests.wires.lmstfy import Answer, ask

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.pools.conftest import Pooled

PATIENCE_S = 90.0  # for a broker that restarts while other tests use the cores


async def exists(amqp_url: str, queue: str) -> bool:
    async with await aio_pika.connect(amqp_url) as connection:
        channel = await connection.channel()
        with suppress(ChannelNotFoundEntity):
            await channel.get_queue(queue)
            return True
    return False


class TestRouting:
    async def test_a_message_is_queued_on_the_broker_of_its_namespaces_pool(
        self, pooled: Pooled, rabbit: RabbitNode
    ) -> None:
        places = [
            (pooled.topic(), pooled.amqp_url, "ready."),
            (pooled.topic("shop"), pooled.eu_rabbit.amqp_url, "ready."),
            (pooled.topic("uk"), rabbit.amqp_url, f"{pooled.us_prefix}-ready."),
        ]
        for topic, own_url, _ in places:
            await topic.send(topic.name, id="one", delay=200)
            assert (await topic.pull_one())["body"] == topic.name
            for _, url, other in places:
                assert await exists(url, other + topic.name) == (url == own_url), (url, topic.name)

    async def test_one_list_and_one_scrape_have_the_topics_of_all_pools(self, pooled: Pooled) -> None:
        topics = [pooled.topic(), pooled.topic("shop"), pooled.topic("uk")]
        for topic in topics:
            await topic.send(id="one", delay="1h")
        listed = (await pooled.client.get("/v1/topics")).json()["topics"]
        assert {topic.name for topic in topics} <= {one["topic"] for one in listed}
        for topic in topics:
            assert await pooled.metric(f'delaybridge_messages{{state="waiting",topic="{topic.name}"}}') == 1

    async def test_a_pull_from_topics_of_two_pools_is_refused(self, pooled: Pooled) -> None:
        first, second, other = pooled.topic("shop"), pooled.topic("shop"), pooled.topic("uk")
        await second.send("second", id="one")
        asked = {"topics": [first.name, second.name], "wait": "60s"}
        (message,) = (await pooled.client.post("/v1/pull", json=asked)).json()["messages"]
        assert message["body"] == "second"
        refused = await pooled.client.post("/v1/pull", json={"topics": [first.name, other.name]})
        (error,) = refused.json()["errors"]
        assert (refused.status_code, error["field"], error["limit"]) == (422, "topics", "topics of one pool")
        assert f"{first.name} is in eu" in error["message"]

    async def test_a_message_from_another_wire_is_in_its_namespaces_pool(self, pooled: Pooled) -> None:
        topic = pooled.topic("shop")
        params = {"topic": topic.name, "msg": "hello", "msgId": "one", "delayMillis": "3600000"}
        sent = await pooled.client.post("/camellia/delayQueue/sendMsg", params=params)
        assert sent.json()["code"] == 200
        assert await topic.state("one") == "waiting"
        assert await exists(pooled.eu_rabbit.amqp_url, f"ready.{topic.name}")

    async def test_a_job_is_found_by_its_id_in_any_pool(self, pooled: Pooled) -> None:
        topic, job_id = pooled.topic("shop"), uuid4().hex
        job = {"topic": topic.name, "id": job_id, "delay": 1, "ttr": 60, "body": "hello"}
        assert (await pooled.client.post("/push", json=job)).json()["code"] == 0
        popped = await pooled.client.post("/pop", json={"topic": topic.name})
        assert popped.json()["data"] == {"id": job_id, "body": "hello"}
        refused = await pooled.client.post("/pop", json={"topic": f"{topic.name},orders"})
        assert (refused.json()["code"], "are of several pools" in refused.json()["message"]) == (1, True)
        assert (await pooled.client.post("/finish", json={"id": job_id})).json()["code"] == 0
        assert await topic.state(job_id) == "acked"


class TestLmstfy:
    async def admin(self, pooled: Pooled, request: str) -> Answer:
        return await ask(pooled.lmstfy_admin_port, request)

    async def token(self, pooled: Pooled, namespace: str, pool: str = "") -> str:
        made = await self.admin(pooled, f"POST /token/{namespace}?description=d&pool={pool}")
        assert made.status == 201, made
        token: str = made.json["token"]
        return token

    async def test_pools_are_listed_and_an_unknown_one_is_refused_before_the_token(self, pooled: Pooled) -> None:
        assert (await self.admin(pooled, "GET /pools")).json == ["default", "eu", "us"]
        refused = await ask(pooled.lmstfy_port, "GET /api/ns/q", {"X-Token": "nowhere:x"})
        assert (refused.status, refused.json) == (404, {"error": "pool not found"})
        unknown = await self.admin(pooled, "GET /token/ns/nowhere:x/limit")
        assert (unknown.status, unknown.json) == (400, {"error": "the pool was not exists"})

    async def test_a_namespace_is_in_the_pool_of_its_token_whatever_its_name(self, pooled: Pooled) -> None:
        namespace = f"ns-{uuid4().hex[:12]}"
        token = await self.token(pooled, namespace, "eu")
        assert token.startswith("eu:")
        path = f"/api/{namespace}/orders"
        published = await ask(pooled.lmstfy_port, f"PUT {path}", {"X-Token": token}, b"hello")
        consumed = await ask(pooled.lmstfy_port, f"GET {path}?timeout=60&ttr=60", {"X-Token": token})
        assert consumed.json["job_id"] == published.json["job_id"]
        assert await exists(pooled.eu_rabbit.amqp_url, f"ready.{namespace}/orders")
        assert not await exists(pooled.amqp_url, f"ready.{namespace}/orders")
        elsewhere = await ask(pooled.lmstfy_port, f"GET {path}", {"X-Token": token.removeprefix("eu:")})
        assert (elsewhere.status, elsewhere.json) == (401, {"error": "invalid token"})
        assert f'"{namespace}"' in (await self.admin(pooled, "GET /info?pool=eu")).text
        assert f'"{namespace}"' not in (await self.admin(pooled, "GET /info")).text

    async def test_a_token_that_names_no_pool_follows_its_namespace(self, pooled: Pooled) -> None:
        queue = uuid4().hex
        token = await self.token(pooled, "shop")
        published = await ask(pooled.lmstfy_port, f"PUT /api/shop/{queue}?delay=3600", {"X-Token": token}, b"hello")
        found = await pooled.client.get(f"/v1/topics/shop%2F{queue}/messages/{published.json['job_id']}")
        assert found.json()["state"] == "waiting"

    async def test_limits_of_all_pools_are_listed_together(self, pooled: Pooled) -> None:
        namespace, limit = f"ns-{uuid4().hex[:12]}", b'{"read":1,"write":1,"interval":3600}'
        tokens = [await self.token(pooled, namespace, pool) for pool in ("", "eu")]
        for token in tokens:
            made = await ask(pooled.lmstfy_admin_port, f"POST /token/{namespace}/{token}/limit", body=limit)
            assert made.status == 201
        listed = (await self.admin(pooled, "GET /limits")).json
        assert sorted(tokens) == sorted(one["token"] for one in listed if one["namespace"] == namespace)


@asynccontextmanager
async def broker_killed(pooled: Pooled) -> AsyncIterator[None]:
    # RabbitMQ may leave a queue without a leader if it is killed right after the queue was declared.
    await asyncio.to_thread(pooled.eu_rabbit.sync)
    await killed(pooled.eu_rabbit)
    yield
    await started(pooled.eu_rabbit)


@asynccontextmanager
async def redis_frozen(pooled: Pooled) -> AsyncIterator[None]:
    pooled.eu_redis.freeze()
    try:
        yield
    finally:
        pooled.eu_redis.thaw()


@pytest.mark.timeout(PATIENCE_S + 60)
@pytest.mark.parametrize(
    ("outage", "part", "listed"), [(broker_killed, "eu/broker", 200), (redis_frozen, "eu/store", 503)]
)
async def test_a_pool_that_is_away_affects_its_own_topics_only(
    pooled: Pooled, outage: Callable[[Pooled], AbstractAsyncContextManager[None]], part: str, listed: int
) -> None:
    while (await pooled.ready()).json()["status"] != "ok":
        await pooled.topic().pull(wait=200)
    away = pooled.topic("shop")
    await away.send("before", id="before", delay=1_000)
    async with outage(pooled):
        while (answer := await pooled.ready()).json()["parts"][part] == "ok":
            assert answer.status_code == 200
        assert (answer.status_code, answer.json()["status"]) == (200, "degraded")
        assert {name for name, state in answer.json()["parts"].items() if state != "ok"} <= {
            f"eu/{one}"
            for one in (
                "broker",
                "store",
                "checkpoint",
                "acks",
                "ingress",
                "audit",
                "watch",
                "push",
                "leases",
                "probes",
            )
        }
        assert await pooled.metric(f'delaybridge_up{{part="{part}"}}') == 0
        assert await pooled.metric(f'delaybridge_up{{part="{part.removeprefix("eu/")}"}}') == 1
        await away.send("refused", id="refused", expect=503)
        for topic in (pooled.topic(), pooled.topic("uk")):
            await topic.send("meanwhile", id="one", delay=500)
            leased = await topic.pull_one()
            assert leased["body"] == "meanwhile"
            await topic.call("POST", "/ack", {"receipts": [leased["receipt"]]})
            assert await topic.state("one") == "acked"
        # A list of topics asks the Redis of each pool. It is complete or refused.
        assert (await pooled.client.get("/v1/topics")).status_code == listed
    async with asyncio.timeout(PATIENCE_S):
        while (await pooled.ready()).json()["status"] != "ok":
            await pooled.topic().pull(wait=200)
        # A broker that has just started may answer later than a request's timeout.
        pull = f"/v1/topics/{quote(away.name, safe='')}/pull"
        while (pulled := await pooled.client.post(pull, json={"wait": "30s"})).status_code == 503:
            await pause()
    (message,) = pulled.json()["messages"]
    assert message["body"] == "before"


async def test_a_process_starts_and_stops_cleanly_while_a_pool_is_away(
    rabbit: RabbitNode, redis_node: RedisNode, local_dir: Path
) -> None:
    port, nobody = free_ports(2)
    name = f"lone-{uuid4().hex[:12]}"
    eu = {"amqp_url": f"amqp://guest:s3cret@127.0.0.1:{nobody}/", "redis_url": f"redis://:s3cret@127.0.0.1:{nobody}/0"}
    settings = {
        "BRIDGE_AMQP_URL": rabbit.amqp_url,
        "BRIDGE_REDIS_URL": redis_node.url,
        "BRIDGE_PREFIX": name,
        "BRIDGE_REDIS_PREFIX": name,
        "BRIDGE_READY_PREFIX": f"{name}-ready.",
        "BRIDGE_DEAD_PREFIX": f"{name}-dead.",
        "BRIDGE_POOLS": json.dumps({"eu": {**eu, "namespaces": ["shop"]}}),
    }
    bridge = ForkedBridge(local_dir / name / "bridge.log", port, settings)
    await asyncio.to_thread(bridge.start)
    try:
        async with httpx2.AsyncClient(base_url=bridge.url, timeout=60) as client:
            health = (await client.get("/health/ready")).json()
            assert (health["status"], health["parts"]["broker"]) == ("degraded", "ok")
            assert health["parts"]["eu/broker"] != "ok" != health["parts"]["eu/store"]
            assert (await client.post("/v1/topics/orders/messages", json={"body": 1})).status_code == 201
            assert (await client.post("/v1/topics/shop%2Forders/messages", json={"body": 1})).status_code == 503
    finally:
        await asyncio.to_thread(bridge.stop)
    assert bridge.exit_code == 0
    log = bridge.log_file.read_text()
    assert '"pool": "eu"' in log
    assert "s3cret" not in log
