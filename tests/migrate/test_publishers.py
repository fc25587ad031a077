"""Tests applications of the plugin after a migration: unchanged through the door, and with one changed name without it.

One library runs here. `make test-migration` runs all of them, on each version of RabbitMQ.
"""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import aio_pika
import pytest
import pytest_asyncio
from aio_pika import Message
from aio_pika.abc import AbstractChannel

from bridge.local.rabbitmq import RabbitNode
from bridge.local.redis import RedisNode
from tests.clients.node import install, run
from tests.docs.documents import PROJECT
from tests.door.conftest import opened
from tests.integration.own import Own, own_bridge
from tests.pika import pika
from topology import plan
from topology.declare import apply
from topology.names import Names

HERE: Final = Path(__file__).parent / "publishers"
NODE: Final = PROJECT / "clients" / "examples" / "node"
PYTHON: Final = PROJECT / ".local" / "publishers"
JARS: Final = ":".join(f"/usr/share/java/{jar}.jar" for jar in ("amqp-client", "slf4j-api", "slf4j-nop"))
PROGRAMS: Final = {
    "pika": ("python", str(PYTHON / "bin" / "python"), "pika_publisher.py"),
    "celery": ("python", str(PYTHON / "bin" / "python"), "celery_publisher.py"),
    "amqplib": ("node", "node", "amqplib.mjs"),
    "php-amqplib": ("php", "php", "php_amqplib.php"),
    "spring": ("java", "java", "-cp", JARS, "Spring.java"),
    "masstransit": ("java", "java", "-cp", JARS, "MassTransit.java"),
}
EVERY: Final = "BRIDGE_TEST_PUBLISHERS"
CHOSEN: Final = list(PROGRAMS) if os.environ.get(EVERY) == "all" else ["php-amqplib"]
COUNT, DELAY_MS = 20, 1_000
KEY = "reminder"


def needs(language: str) -> None:
    """Installs what the programs of a language need. The test is skipped, and says what is missing, where it can't."""
    if language == "python":
        if not (PYTHON / "made").exists():
            subprocess.run([sys.executable, "-m", "venv", str(PYTHON)], check=True)
            packages = ("pika>=1.3,<2", "celery>=5.5,<6")
            subprocess.run([str(PYTHON / "bin" / "pip"), "install", "--quiet", *packages], check=True)
            (PYTHON / "made").touch()
        return
    if missing := run("sh", "deploy/client-packages.sh", language, folder=PROJECT).split():
        pytest.skip(f"{' and '.join(missing)} missing: run sh deploy/setup.sh clients")
    if language == "node" and (why := install(NODE)):
        pytest.skip(why)


@dataclass(frozen=True, kw_only=True)
class Old:
    """An exchange as a migration leaves it: plain, and with its ingress."""

    name: str
    kind: str

    @property
    def queue(self) -> str:
        return f"{self.name}-queue"


async def migrated(own: Own, channel: AbstractChannel, name: str, kind: str) -> Old:
    """Declares the exchange and its ingress."""
    await channel.declare_exchange(name, kind, durable=True, arguments={"x-delayed-type": kind})
    async with await aio_pika.connect(own.settings["BRIDGE_AMQP_URL"]) as connection:
        await apply(pika(connection), plan.ingress_of(Names(), name))
    return Old(name=name, kind=kind)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def own(rabbit: RabbitNode, redis_node: RedisNode, local_dir: Path) -> AsyncIterator[Own]:
    async with own_bridge(rabbit, redis_node.url, local_dir / "migrated") as own:
        yield own


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def channel(own: Own) -> AsyncIterator[AbstractChannel]:
    async with await aio_pika.connect(own.settings["BRIDGE_AMQP_URL"]) as connection:
        yield await connection.channel()


class Received:
    """The messages of a queue: by number, how long after its moment each came, in ms."""

    def __init__(self) -> None:
        self.late_ms: dict[int, list[float]] = {}
        self.negated: set[bool] = set()

    def note(self, message: aio_pika.abc.AbstractIncomingMessage) -> None:
        found = re.search(rb"at:(\d+):(\d+):(\d+)", message.body)
        assert found is not None, message.body
        number, sent_ms, delay_ms = map(int, found.groups())
        self.late_ms.setdefault(number, []).append(time.time() * 1_000 - sent_ms - delay_ms)
        self.negated.add(message.headers["x-delay"] == -delay_ms)

    async def take(self, channel: AbstractChannel, queue: str, count: int) -> None:
        async with (await channel.get_queue(queue)).iterator(no_ack=True) as deliveries:
            async for message in deliveries:
                self.note(message)
                if len(self.late_ms) == count:
                    return

    def check(self, count: int) -> None:
        assert sorted(self.late_ms) == list(range(count))
        assert {number: late for number, late in self.late_ms.items() if min(late) < 0} == {}
        assert self.negated == {True}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("way", ["through the door", "one changed name"])
@pytest.mark.parametrize("library", CHOSEN)
async def test_application_of_the_plugin_goes_on(
    own: Own, rabbit: RabbitNode, channel: AbstractChannel, library: str, way: str
) -> None:
    language, *command = PROGRAMS[library]
    await asyncio.to_thread(needs, language)
    # MassTransit's own exchange is behind the old one, so that has to pass every key on.
    kind = "fanout" if library == "masstransit" else "direct"
    old = await migrated(own, channel, f"{library}-{way.replace(' ', '-')}", kind)
    queue = await channel.declare_queue(old.queue, durable=True)
    environment = {
        "EXCHANGE": old.name,
        "QUEUE": old.queue,
        "KIND": kind,
        "KEY": KEY,
        "COUNT": str(COUNT),
        "DELAY_MS": str(DELAY_MS),
        "NODE_FOLDER": str(NODE),
    }
    async with opened(rabbit.port) as door:
        if way == "through the door":
            url = door.url(own.settings["BRIDGE_AMQP_URL"])
            environment |= {"AMQP_URL": url, "PUBLISH_TO": old.name, "DECLARES": "1"}
        else:
            await queue.bind(old.name, KEY)
            url = own.settings["BRIDGE_AMQP_URL"]
            environment |= {"AMQP_URL": url, "PUBLISH_TO": Names().ingress_of(old.name)}
        received = Received()
        taking = asyncio.create_task(received.take(channel, old.queue, COUNT))
        await asyncio.to_thread(run, *command, folder=HERE, environment=environment)
        await taking
    received.check(COUNT)


@pytest.mark.timeout(300)
async def test_consumer_that_restarts_all_the_time_gets_nothing_undelayed(
    own: Own, rabbit: RabbitNode, channel: AbstractChannel
) -> None:
    old = await migrated(own, channel, "restarting", "topic")
    async with opened(rabbit.port) as door:
        url = door.url(own.settings["BRIDGE_AMQP_URL"])
        received = Received()
        consuming = asyncio.create_task(consume_for_moments(url, old, received))
        async with await aio_pika.connect(url) as connection:
            through = await (await connection.channel()).get_exchange(old.name)
            for number in range(200):
                delay_ms = 500 + 10 * (number % 50)
                body = f"at:{number}:{time.time_ns() // 1_000_000}:{delay_ms}".encode()
                await through.publish(Message(body, headers={"x-delay": delay_ms}), KEY)
                await asyncio.sleep(0.01)
        await consuming
    received.check(200)
    assert consuming.result() > 2


async def consume_for_moments(url: str, old: Old, received: Received) -> int:
    """Consumes, and starts again after half a second, until all messages have come. Returns the number of starts."""
    starts = 0
    while len(received.late_ms) < 200:
        starts += 1
        async with await aio_pika.connect(url) as connection:
            channel = await connection.channel()
            exchange = await channel.declare_exchange(
                old.name, "x-delayed-message", durable=True, arguments={"x-delayed-type": old.kind}
            )
            queue = await channel.declare_queue(old.queue, durable=True)
            await queue.bind(exchange, KEY)

            async def came(message: aio_pika.abc.AbstractIncomingMessage) -> None:
                received.note(message)
                await message.ack()

            await queue.consume(came)
            await asyncio.sleep(0.5)
    return starts
