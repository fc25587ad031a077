"""Tests that a bridge leaves a node that keeps its connections open but stops answering."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Self
from urllib.parse import urlsplit

import aio_pika
import httpx2

from tests.fault.api import PATIENCE_S, Api
from tests.fault.stage import Stage, killed, started


class Route:
    """A TCP proxy to RabbitMQ that looks like a second node and can fall silent."""

    def __init__(self, url: str) -> None:
        self._target = urlsplit(url)
        self._speaks = asyncio.Event()
        self._speaks.set()
        self._passing: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1")
        port = self._server.sockets[0].getsockname()[1]
        self.url = self._target._replace(netloc=f"guest:guest@127.0.0.1:{port}").geturl()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._passing:
            task.cancel()
        await asyncio.gather(*self._passing, return_exceptions=True)

    @property
    def used(self) -> bool:
        return bool(self._passing)

    def fall_silent(self) -> None:
        self._speaks.clear()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        up_reader, up_writer = await asyncio.open_connection(self._target.hostname, self._target.port)
        for source, target in ((reader, up_writer), (up_reader, writer)):
            task = asyncio.create_task(self._pass(source, target))
            self._passing.add(task)
            task.add_done_callback(self._passing.discard)

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with suppress(OSError):
                while chunk := await reader.read(65_536):
                    await self._speaks.wait()
                    writer.write(chunk)
                    await writer.drain()
        finally:
            writer.transport.abort()


async def test_publisher_and_checkpoint_leave_a_silent_node(stage: Stage, http: httpx2.AsyncClient) -> None:
    async with Route(stage.rabbit.amqp_url) as one, Route(stage.rabbit.amqp_url) as other:
        bridge = stage.bridge(amqp_url=f"{one.url},{other.url}")
        await started(bridge)
        api = Api(http, bridge.url)
        await api.sent("moved", "before")
        assert one.used != other.used
        (one if one.used else other).fall_silent()
        await api.sent("moved", "after", delay=1_000)
        # Nobody pulls, so the consuming connection must detect the silence itself.
        connection = await aio_pika.connect(stage.rabbit.amqp_url)
        async with connection, asyncio.timeout(PATIENCE_S):
            queue = await (await connection.channel()).get_queue("ready.moved")
            async with queue.iterator() as messages:
                async for message in messages:
                    await message.ack()
                    if message.message_id == "after":
                        break
        await killed(bridge)
