"""Tests what a bridge does with messages that are due while their exchange is replaced."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import uuid4

import httpx2
import pytest
from aio_pika import Message

from bridge.local.ports import free_ports
from bridge.local.rabbitmq import RabbitNode
from bridge.local.redis import RedisNode
from tests.forked_bridge import PATIENT, ForkedBridge
from tests.migrate.conftest import Site, declare_old
from tests.migrate.plugin import Plugin
from tests.shared_servers import delete_vhost, make_vhost, vhost_url
from tests.waiting import pause
from topology.migration.carry_out import Migration


@pytest.fixture(scope="module")
def vhost(node: RabbitNode) -> Iterator[str]:
    vhost = f"meanwhile-{uuid4().hex[:8]}"
    make_vhost(node, vhost)
    yield vhost
    delete_vhost(node, vhost)


@pytest.fixture(scope="module")
def bridge(node: RabbitNode, vhost: str, redis_node: RedisNode, local_dir: Path) -> Iterator[ForkedBridge]:
    given = {
        "BRIDGE_AMQP_URL": vhost_url(node, vhost),
        "BRIDGE_REDIS_URL": redis_node.url,
        "BRIDGE_REDIS_PREFIX": vhost,
        **PATIENT,
    }
    bridge = ForkedBridge(local_dir / vhost / "bridge.log", free_ports(1)[0], given)
    bridge.start()
    yield bridge
    bridge.kill()


@pytest.fixture
def site(node: RabbitNode, plugin: Plugin, vhost: str, tmp_path: Path) -> Site:
    return Site(node=node, vhost=vhost, file=tmp_path / "kept.json")


def count(bridge: ForkedBridge, exchange: str, state: str) -> int:
    answer = httpx2.get(f"{bridge.url}/v1/topics/exchanges%2F{exchange}", timeout=30)
    return 0 if answer.status_code == 404 else int(answer.json()["counts"].get(state, 0))


def is_paused(bridge: ForkedBridge, exchange: str) -> bool:
    answer = httpx2.get(f"{bridge.url}/v1/topics/exchanges%2F{exchange}", timeout=30).raise_for_status()
    return bool(answer.json()["policy"]["paused"])


@asynccontextmanager
async def due_all_the_time(site: Site, bridge: ForkedBridge, name: str) -> AsyncIterator[None]:
    """Publishes messages that are due 20 ms later, one after the other. Begins when the first have been released."""

    async def publish() -> None:
        async with site.channel() as channel:
            exchange = await channel.get_exchange(f"delay.in.{name}", ensure=False)
            while True:
                await exchange.publish(Message(b"due", headers={"x-delay": 20}), "order.1")
                await asyncio.sleep(0.01)

    publisher = asyncio.create_task(publish())
    try:
        while not await asyncio.to_thread(count, bridge, name, "acked"):
            await pause()
        yield
    finally:
        publisher.cancel()
        await asyncio.gather(publisher, return_exceptions=True)


async def test_topic_is_paused_while_its_exchange_is_replaced_and_its_dead_letters_are_named(
    site: Site, bridge: ForkedBridge, monkeypatch: pytest.MonkeyPatch
) -> None:
    delete = Migration._delete

    async def delete_for_long(self: Migration, exchange: str) -> None:
        await delete(self, exchange)
        found.append(await asyncio.to_thread(is_paused, bridge, exchange))
        await asyncio.sleep(0.3)  # so that something is due

    found: list[object] = []
    monkeypatch.setattr(Migration, "_delete", delete_for_long)
    monkeypatch.setattr("topology.migration.carry_out._SETTLED_S", 0.5)  # one process has no other to follow it
    async with site.channel() as channel:
        await declare_old(channel)
    await site.migrate("apply", "--exchange", "orders", code=5)
    async with due_all_the_time(site, bridge, "orders"):
        applied = await site.json("apply", "--publishers-moved", "--exchange", "orders", "--url", bridge.url)
        assert (found, applied["to_replay"]) == ([True], {"exchanges/orders": 0})
        assert not is_paused(bridge, "orders")

        unasked = await site.migrate("rollback", "--exchange", "orders", code=5)  # without --url
        assert found == [True, False]
        assert "to replay: unknown, as no bridge was asked" in unasked
        while not await asyncio.to_thread(count, bridge, "orders", "dead"):
            await pause()
    dead = count(bridge, "orders", "dead")
    status = await site.migrate("status", "--url", bridge.url)
    replay = f"`delaybridge dead replay exchanges/orders --max {dead}`"
    assert f"to replay: {dead} dead letters of exchanges/orders: {replay}." in status


async def test_bridge_that_does_not_answer_stops_the_replacement(site: Site, bridge: ForkedBridge) -> None:
    async with site.channel() as channel:
        await declare_old(channel, "mails")
    nowhere = f"http://127.0.0.1:{free_ports(1)[0]}"
    output = await site.migrate("apply", "--publishers-moved", "--exchange", "mails", "--url", nowhere, code=1)
    assert f"the bridge at {nowhere} did not answer" in output
    assert (await site.json("status", "--exchange", "mails"))["exchanges"][0]["stage"] == "prepared"
    assert "without a user" in await site.migrate("status", "--url", "http://a:b@c", code=2)


async def test_pause_of_an_interrupted_command_ends_with_the_command_that_goes_on(
    site: Site, bridge: ForkedBridge, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("topology.migration.carry_out._SETTLED_S", 0.0)
    async with site.channel() as channel:
        await declare_old(channel, "bills")
    await site.migrate("apply", "--exchange", "bills", code=5)
    async with due_all_the_time(site, bridge, "bills"):
        pass

    def die(*_: object) -> None:
        raise OSError("killed")

    told = ("apply", "--publishers-moved", "--exchange", "bills", "--url", bridge.url)
    with monkeypatch.context() as patched:
        patched.setattr("topology.migration.kept.KeptFile.end", die)
        await site.migrate(*told, code=1)
    assert is_paused(bridge, "bills")
    assert "paused: exchanges/bills" in await site.migrate("status")
    await site.migrate(*told)
    assert not is_paused(bridge, "bills")
    assert "paused:" not in await site.migrate("status")
