"""Opens connections to RabbitMQ, and reads their messages and confirms without aiormq.

aiormq accepts a factory for its streams. `FastReader` is such a factory. It gives aiormq a `Reader`, which takes
messages and confirms out of the bytes.
"""

from __future__ import annotations

import asyncio
from typing import Any, cast
from uuid import uuid4

import aio_pika
from aiormq import Channel, TransportFactory
from aiormq.abc import DeliveredMessage
from aiormq.connection import TCPTransportFactory, TLSTransportFactory
from yarl import URL

from bridge.broker.client.confirms import Confirms
from bridge.broker.client.gets import Gets
from bridge.broker.client.reader import Reader, Received


class RawConnection(aio_pika.Connection):
    """A connection of aio-pika with a `FastReader` for its deliveries and confirms."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.reader = FastReader()
        self.kwargs["transport_factory"] = self.reader

    def __del__(self) -> None:
        # aio-pika's destructor would also close a connection that never opened, perhaps without an event loop. The code
        # that opens a `RawConnection` closes it.
        pass


class FastReader(TransportFactory):
    """The consumers, gets and publishing channels of one connection. Each consumer has a tag that was never used
    before."""

    def __init__(self) -> None:
        self.consumers: dict[bytes, tuple[Channel, Received]] = {}  # by consumer tag
        self.gets: dict[int, Gets] = {}  # by channel number
        self.confirms: dict[int, Confirms] = {}  # by channel number

    async def create(self, url: URL, **kwargs: Any) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Opens the streams of a connection. aiormq calls this."""
        factory = TLSTransportFactory() if url.scheme == "amqps" else TCPTransportFactory()
        reader, writer = await factory.create(url, **kwargs)
        ours = Reader(reader, consumers=self.consumers, gets=self.gets, confirms=self.confirms)
        return cast(asyncio.StreamReader, ours), writer

    async def consume(self, channel: Channel, queue: str, received: Received, tag: str = "") -> str:
        """Calls `received` with each delivery until `forget`. Returns the consumer's tag, by default a new one.

        Raises: the errors of `basic_consume`.
        """
        tag = tag or new_tag()
        self.consumers[tag.encode()] = (channel, received)
        try:
            await channel.basic_consume(queue, _ignore, consumer_tag=tag)
        except BaseException:
            self.forget(tag)
            raise
        return tag

    def gets_of(self, channel: Channel) -> Gets:
        """Returns the object that takes single messages over the channel."""
        gets = self.gets[channel.number] = Gets(channel)
        return gets

    def publisher(self, channel: Channel) -> Confirms:
        """Returns an object that collects the confirms of all later publishes on the channel."""
        confirms = self.confirms[channel.number] = Confirms()
        return confirms

    def forget(self, tag: str) -> None:
        """Ignores further deliveries of a consumer that is cancelled, or whose channel closes."""
        self.consumers.pop(tag.encode(), None)


def new_tag() -> str:
    """Returns a consumer tag that was never used before."""
    return f"bridge-{uuid4().hex}"


async def _ignore(_: DeliveredMessage) -> None:
    """Ignores the deliveries that aiormq reads after `forget`."""
