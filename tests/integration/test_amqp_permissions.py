"""Tests that the permissions of the documented commands limit an AMQP user to one topic."""

from __future__ import annotations

import re
import shlex
from collections.abc import AsyncIterator, Awaitable, Callable
from uuid import uuid4

import aio_pika
import httpx2
import pytest
import pytest_asyncio
from aiormq.abc import FieldTable
from aiormq.exceptions import ChannelAccessRefused

from tests.docs.documents import text
from tests.integration.amqp import Amqp
from tests.integration.topic import Topic
from tests.rabbit_users import carry_out, delete_user
from tests.shared_servers import SharedRabbit

_SECTION = text("docs/operating/security.md").partition("\n## AMQP users\n")[2].partition("\n## ")[0]
_COMMANDS = re.findall(r"^rabbitmqctl (.+)$", _SECTION, flags=re.MULTILINE)


@pytest_asyncio.fixture(scope="module")
async def own(client: httpx2.AsyncClient) -> Topic:
    """The topic of the limited user."""
    topic = Topic(client, f"own-{uuid4().hex[:12]}")
    await topic.put_policy()
    return topic


@pytest_asyncio.fixture(scope="module")
async def limited(rabbit: SharedRabbit, own: Topic) -> AsyncIterator[Amqp]:
    """A connection of a user who has the documented permissions for the topic `own`."""
    user = f"billing-{own.name}"
    for line in _COMMANDS:
        carry_out(rabbit, rabbit.vhost, *shlex.split(line.replace("orders", own.name).replace("billing", user)))
    async with await aio_pika.connect(f"amqp://{user}:SECRET@127.0.0.1:{rabbit.port}/{rabbit.vhost}") as connection:
        yield Amqp(connection)
    delete_user(rabbit, user)


async def test_limited_user_sends_consumes_and_acknowledges_its_topic(own: Topic, limited: Amqp) -> None:
    await limited.publish("delay", f"0.0.0.0.0.0.1.{own.name}", message_id="m-1")
    assert (await limited.take(own.ready_queue)).message_id == "m-1"
    await limited.publish("delay.done", own.name, b"", message_id="m-1")
    await own.until_state("m-1", "acked")


Way = Callable[[Amqp, Topic], Awaitable[object]]


async def _bind(limited: Amqp, topic: Topic) -> None:
    """Binds an exchange that takes every key before the one that checks it."""
    async with limited.connection.channel() as channel:
        done = await channel.get_exchange("delay.done", ensure=False)
        await done.bind("amq.topic", topic.name)


async def _dead_letter(limited: Amqp, topic: Topic) -> None:
    """Declares a queue that dead-letters with the key of another topic."""
    arguments: FieldTable = {"x-dead-letter-exchange": "delay.done", "x-dead-letter-routing-key": topic.name}
    async with limited.connection.channel() as channel:
        await channel.declare_queue(f"mine-{topic.name}", arguments=arguments)


WAYS: dict[str, Way] = {
    "ack": lambda limited, topic: limited.publish("delay.done", topic.name, b"", message_id="m-1"),
    "ack past the check": lambda limited, topic: limited.publish("delay.acks", topic.name, b"", message_id="m-1"),
    "default exchange": lambda limited, _: limited.publish("", "delay.acks", b"", message_id="m-1"),
    "binding": _bind,
    "dead letter": _dead_letter,
    "consume": lambda limited, topic: limited.take(topic.ready_queue),
    "send": lambda limited, topic: limited.publish("delay", f"0.0.0.0.0.0.1.{topic.name}", message_id="m-1"),
    "copy": lambda limited, topic: limited.publish("delay", f"0.0.0.0.0.0.1.!lease.{topic.name}", message_id="m-1"),
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
async def test_limited_user_cannot_reach_another_topics_message(topic: Topic, limited: Amqp, way: Way) -> None:
    await topic.send(id="m-1")
    with pytest.raises(ChannelAccessRefused):
        await way(limited, topic)
    assert (await topic.pull_one())["id"] == "m-1"
