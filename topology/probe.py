"""Tests what a bridge may declare on a broker and whether RabbitMQ takes messages, and leaves nothing behind."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from ssl import SSLContext
from typing import Final, Literal
from uuid import uuid4

from aio_pika.exceptions import AMQPError, ChannelClosed
from aiormq.exceptions import ChannelAccessRefused
from pamqp.commands import Queue

from topology.channels import plain_channel
from topology.connect import connect, refusal
from topology.connection import Connection

PublishResult = Literal["confirmed", "blocked", "refused"]
"""What RabbitMQ does with a message: confirms it, blocks the publisher, or refuses it for lack of a right."""

_PATIENCE_S: Final = 2.0
_CLOSED_WITHIN_S: Final = 0.2


async def barred_names(connection: Connection, starts: Iterable[str]) -> tuple[str, ...]:
    """Returns each name beginning in `starts` under which the user may not configure queues.

    For each beginning it tries to declare an exclusive quorum queue. The broker checks the permission first. It refuses
    the queue in any case, because no quorum queue can be exclusive. So no queue is left behind.
    """
    barred = []
    for start in starts:
        async with plain_channel(connection) as channel:
            with suppress(ChannelClosed):
                try:
                    await channel.rpc(
                        Queue.Declare(
                            queue=f"{start}probe-{uuid4().hex}",
                            durable=True,
                            exclusive=True,
                            arguments={"x-queue-type": "quorum"},
                        )
                    )
                except ChannelAccessRefused:
                    barred.append(start)
    return tuple(barred)


async def publishing(url: str, *, timeout_s: float, tls: SSLContext) -> PublishResult:
    """Publishes two messages that RabbitMQ confirms and drops, as no queue has their key. Returns what RabbitMQ did.

    While RabbitMQ has an alarm, it takes the first message of a connection, and reads no further.

    Raises:
        ConnectionFailed: RabbitMQ refused the connection, or a call over it.
        OSError, TimeoutError: the server can't be reached.
    """
    try:
        connection = await connect(url, timeout_s=timeout_s, tls=tls)
        try:
            channel = await connection.open_channel(confirms=True)
            for _ in range(2):
                async with asyncio.timeout(_PATIENCE_S):
                    await channel.basic_publish(b"", exchange="", routing_key=f"probe-{uuid4().hex}", mandatory=False)
        except TimeoutError:
            return "blocked"
        except ChannelAccessRefused:
            return "refused"
        finally:
            # A broker that blocks the connection does not read that it is closed.
            with suppress(TimeoutError):
                async with asyncio.timeout(_CLOSED_WITHIN_S):
                    await connection.raw.close()
    except AMQPError as error:
        raise refusal(error) from error
    return "confirmed"
