"""Tests that the bridge reports operator policies and Redis settings that break its promises."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest_asyncio
from redis.asyncio import Redis

from bridge.local.ports import free_ports
from bridge.local.rabbitmq import RabbitNode
from bridge.local.redis import RedisNode
from tests.forked_bridge import ForkedBridge
from tests.integration.own import Own, own_bridge
from tests.integration.topic import Json
from tests.matrix.servers import Servers
from tests.waiting import pause

Row = tuple[str, Json, str]
"""A policy: its pattern, its definition, and what the bridge says of its effect."""


class Watched:
    """A bridge that verifies its servers every 200 ms, and the policies of its virtual host."""

    def __init__(self, own: Own, management: httpx2.AsyncClient) -> None:
        self.own = own
        self._management = management
        self._vhost = own.vhost

    @asynccontextmanager
    async def policy(
        self, kind: str, pattern: str, definition: Json, apply_to: str = "queues", *, name: str = "limits"
    ) -> AsyncIterator[None]:
        """Sets the policy and deletes it on exit."""
        path = f"{kind}/{self._vhost}/{name}"
        policy = {"pattern": pattern, "definition": definition, "apply-to": apply_to, "priority": 1}
        (await self._management.put(path, json=policy)).raise_for_status()
        try:
            yield
        finally:
            (await self._management.delete(path)).raise_for_status()

    @asynccontextmanager
    async def policies(self, kind: str, rows: Sequence[Row]) -> AsyncIterator[list[tuple[str, str]]]:
        """Sets a policy for each row. Yields what the bridge calls each, and what it says of its effect."""
        word, said = "policy" if kind == "policies" else "operator policy", []
        async with AsyncExitStack() as policies:
            for number, (pattern, definition, effect) in enumerate(rows):
                (key,) = definition
                await policies.enter_async_context(self.policy(kind, pattern, definition, name=f"row-{number}"))
                said.append((f"{word} row-{number}: {key}", effect))
            yield said

    async def until(self, reached: Callable[[int, Json], bool]) -> Json:
        """Asks for the health until the condition holds. The test's time limit ends the wait."""
        while True:
            status, health = await self.health()
            if reached(status, health):
                return health
            await pause()

    async def until_ok(self) -> None:
        await self.until(lambda status, health: status == 200 and health["status"] == "ok")

    async def health(self) -> tuple[int, Json]:
        answer = await self.own.topic.client.get("/health/ready")
        health: Any = answer.json()
        return answer.status_code, health

    async def findings(self, severity: str) -> float:
        text = (await self.own.topic.client.get("/metrics")).text
        (line,) = (
            line for line in text.splitlines() if line.startswith(f'delaybridge_findings{{severity="{severity}"')
        )
        return float(line.rpartition(" ")[2])

    def events(self, name: str) -> list[str]:
        return [line for line in self.own.bridge.log_file.read_text().splitlines() if f'"{name}"' in line]


@pytest_asyncio.fixture(scope="module")
async def redis_of_watched(local_dir: Path, servers: Servers) -> AsyncIterator[RedisNode]:
    with servers.redis_node(local_dir / "redis-watched") as node:
        yield node


@pytest_asyncio.fixture(scope="module")
async def watched(rabbit: RabbitNode, redis_of_watched: RedisNode, local_dir: Path) -> AsyncIterator[Watched]:
    settings = {"BRIDGE_VERIFY_EVERY": "500ms", "BRIDGE_MANAGEMENT_URL": rabbit.management_url}
    async with (
        own_bridge(rabbit, redis_of_watched.url, local_dir, **settings) as own,
        httpx2.AsyncClient(base_url=f"{rabbit.management_url}/api/", timeout=60) as management,
    ):
        await own.topic.send(id="remains", delay="1h")
        yield Watched(own, management)


def says(health: Json, *words: str) -> bool:
    return any(all(word in finding["says"] for word in words) for finding in health["findings"])


# RabbitMQ applies one policy to a queue, so each row is about other queues.
BREAKING: list[Row] = [
    (r"^delay\.000d-00h-00m-04s$", {"message-ttl": 1_000}, "lets messages go early"),
    (r"^delay\.000d-00h-00m-05s$", {"expires": 3_600_000}, "deletes the queue with its messages"),
    (r"^delay\.000d-00h-00m-06s$", {"dead-letter-routing-key": "elsewhere"}, "misroutes due messages"),
    (r"^delay\.checkpoint$", {"message-ttl": 3_600_000}, "drops messages that stay longer"),
    (r"^dead\.", {"max-length": 1_000}, "drops its oldest messages"),
    (r"^delay\.acks$", {"delivery-limit": 5}, "drops messages that are requeued more often"),
]


async def test_policy_that_breaks_a_promise_makes_a_bridge_unready(watched: Watched) -> None:
    async with watched.policies("policies", BREAKING) as said:
        health = await watched.until(
            lambda status, health: status == 503 and all(says(health, policy) for policy, _ in said)
        )
        for policy, effect in said:
            assert says(health, policy, effect, "it must be")
            assert policy in health["detail"]
        assert set(health["parts"].values()) == {"ok"}
        assert await watched.findings("error") == len(BREAKING)
    await watched.until_ok()
    assert await watched.findings("error") == 0


LATE: list[Row] = [
    (r"^delay\.000d", {"max-length": 1_000_000}, "refuses sends and holds due messages back"),
    (r"^delay\.[1-9]00d", {"max-length-bytes": 1_000_000}, "refuses sends and holds due messages back"),
    (r"^ready\.", {"delivery-limit": 3}, "takes messages away sooner from consumers that crash"),
]


async def test_policy_that_makes_messages_late_degrades_a_ready_bridge(watched: Watched) -> None:
    async with watched.policies("operator-policies", LATE) as said:
        health = await watched.until(lambda _, health: all(says(health, policy) for policy, _ in said))
        assert (await watched.health())[0] == 200
        assert health["status"] == "degraded"
        # One finding for each policy, not one for each queue.
        assert [finding["severity"] for finding in health["findings"]] == ["warning"] * len(LATE)
        for policy, effect in said:
            assert says(health, policy, effect, "it must be")
        await watched.own.topic.send(delay="1h")
    await watched.until_ok()


async def test_policy_that_adds_an_alternate_exchange_makes_a_bridge_unready(watched: Watched) -> None:
    definition = {"alternate-exchange": "amq.fanout"}
    async with watched.policy("policies", r"^delay\.ready$", definition, "exchanges"):
        await watched.until(lambda status, health: status == 503 and says(health, "alternate-exchange", "delay.ready"))
    await watched.until_ok()


async def test_policy_overridden_by_arguments_is_no_finding(watched: Watched) -> None:
    harmless = {"dead-letter-exchange": "elsewhere", "dead-letter-strategy": "at-most-once"}
    async with (
        watched.policy("policies", r"^delay\.000d-00h-00m-05s$", harmless),
        watched.policy("operator-policies", r"^delay\.000d-00h-00m-06s$", {"max-length": 10}),
    ):
        health = await watched.until(lambda _, health: bool(health["findings"]))
        assert len(health["findings"]) == 1
        assert says(health, "delay.000d-00h-00m-06s")
    await watched.until_ok()


async def test_finding_is_logged_once_when_it_appears_and_when_it_clears(watched: Watched) -> None:
    before = len(watched.events("broker.finding")), len(watched.events("broker.finding_cleared"))
    async with watched.policy("policies", r"^delay\.000d-00h-00m-07s$", {"max-length": 77}):
        await watched.until(lambda _, health: says(health, "77"))
        # A later verification reports the second finding and sees the first again.
        async with watched.policy("operator-policies", r"^delay\.000d-00h-00m-08s$", {"max-length": 88}):
            await watched.until(lambda _, health: says(health, "88"))
    await watched.until_ok()
    after = len(watched.events("broker.finding")), len(watched.events("broker.finding_cleared"))
    assert after == (before[0] + 2, before[1] + 2)


async def test_redis_that_evicts_keys_degrades_a_bridge(watched: Watched, redis_of_watched: RedisNode) -> None:
    async with Redis.from_url(redis_of_watched.url) as redis:
        await redis.config_set("maxmemory-policy", "allkeys-lru")
        await redis.config_set("maxmemory", "1gb")
        try:
            health = await watched.until(lambda _, health: says(health, "allkeys-lru", "it must be noeviction"))
            assert health["status"] == "degraded"
        finally:
            await redis.config_set("maxmemory", "0")
            await redis.config_set("maxmemory-policy", "noeviction")
    await watched.until_ok()


async def test_refused_messages_degrade_a_bridge_until_an_operator_takes_them(watched: Watched) -> None:
    await watched.own.amqp.publish("delay", "5.orders", b"short")
    reason = "'5.orders' is not a key of the wheel", "without such a key the message needs the header x-delay"
    health = await watched.until(lambda _, health: says(health, "delay.refused is not empty", *reason))
    assert health["status"] == "degraded"
    await watched.own.amqp.put_aside("'5.orders' is not a key of the wheel")
    await watched.until_ok()


async def test_bridge_without_the_management_api_is_ready_and_reports_it(watched: Watched, local_dir: Path) -> None:
    settings = {name: value for name, value in watched.own.settings.items() if name != "BRIDGE_MANAGEMENT_URL"}
    beside = ForkedBridge(local_dir / "unmanaged" / "bridge.log", free_ports(1)[0], settings)
    await asyncio.to_thread(beside.start)
    async with httpx2.AsyncClient(base_url=beside.url) as client:
        answer = await client.get("/health/ready")
    beside.kill()
    assert (answer.status_code, answer.json()["status"]) == (200, "ok")
    assert answer.json()["policies"] == "not looked at: set BRIDGE_MANAGEMENT_URL"
