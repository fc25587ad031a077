"""Publishing in bursts: persistent, mandatory, confirmed, within a time limit; returned messages are an error.

A burst writes the frames of all its messages at once and waits for their confirms together. aio-pika's `publish` costs
100 µs a message, most of it for a task, a lock and a drained socket each; pamqp's frames another 20.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from aiormq import Channel
from aiormq.abc import ChannelFrame
from aiormq.exceptions import PublishError

from bridge.broker import frames
from bridge.broker.link import Link, Refused
from bridge.errors import BrokerUnavailable, Unpublishable, Unroutable


class Properties(Protocol):
    """Those of a message, as pamqp has them or `copies` writes them."""

    @property
    def message_id(self) -> str | None: ...

    def marshal(self) -> bytes:
        """
        Raises:
            TypeError, ValueError, ArithmeticError, struct.error: they can't be written.
        """


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A message to publish. `properties.message_id` is set: a return is told by it."""

    exchange: str
    routing_key: str
    properties: Properties
    body: bytes


class _Unwritable(Exception):
    """Nothing of a burst was written, since some of it can't be. `errors`: by place."""

    def __init__(self, errors: dict[int, Unpublishable]) -> None:
        self.errors = errors


class Publisher:
    """Publishes over a few channels of one link, one burst at a time on each."""

    def __init__(self, link: Link, *, timeout_ms: int, channels: int = 8) -> None:
        self._link = link
        self._timeout_s = timeout_ms / 1_000
        self._free: asyncio.Queue[Channel | None] = asyncio.Queue()
        for _ in range(channels):
            self._free.put_nowait(None)

    async def publish(self, messages: Sequence[Outgoing]) -> list[BrokerUnavailable | None]:
        """Publishes all; for each, None once it is confirmed, or why it is not (then it may stand all the same).

        An `Unroutable` says that the broker has no queue for the message, an `Unpublishable` that it can't be written.
        """
        errors: list[BrokerUnavailable | None] = [None] * len(messages)
        for part in _without_twins(messages):
            found = await self._writable([messages[at] for at in part])
            for at, error in zip(part, found, strict=True):
                errors[at] = error
        return errors

    async def publish_one(self, message: Outgoing) -> None:
        """Publishes one.

        Raises:
            BrokerUnavailable: it was not confirmed.
        """
        (error,) = await self.publish([message])
        if error is not None:
            raise error

    async def _writable(self, messages: list[Outgoing]) -> list[BrokerUnavailable | None]:
        try:
            return await self._burst(messages)
        except _Unwritable as unwritable:
            errors: list[BrokerUnavailable | None] = [unwritable.errors.get(at) for at in range(len(messages))]
        rest = [at for at, error in enumerate(errors) if error is None]
        if rest:
            for at, error in zip(rest, await self._burst([messages[at] for at in rest]), strict=True):
                errors[at] = error
        return errors

    async def _burst(self, messages: list[Outgoing]) -> list[BrokerUnavailable | None]:
        futures: list[asyncio.Future[object]] = []
        channel: Channel | None = None
        errors: list[BrokerUnavailable | None]
        if await self._link.blocked():
            # Waiting would only have callers wait behind each other.
            return [BrokerUnavailable("RabbitMQ blocks publishers: a memory or disk alarm")] * len(messages)
        try:
            async with asyncio.timeout(self._timeout_s):
                channel = await self._free.get()
        except TimeoutError:
            return [BrokerUnavailable("all publishing channels are waiting for RabbitMQ")] * len(messages)
        generation = self._link.generation
        try:
            if channel is None or channel.is_closed:
                channel = None
                channel = await self._link.channel(confirms=True)
                generation = self._link.generation
            async with self._link.asking(self._timeout_s) as call:
                # Waits while the broker blocks publishers.
                await channel.connection.ready()
                await _write(channel, messages, futures)
                await _settled(channel, futures)
                # A channel that closed may have been closed from here, with a connection given up on.
                call.telling = not any(future.cancelled() for future in futures)
            errors = [_error_of(future) for future in futures]
        except Refused as error:
            # The connection is left alone: another call may be trying it.
            errors = [error] * len(messages)
        except BrokerUnavailable as error:
            errors = [_error_of(future) if future.done() else error for future in futures]
            errors += [error] * (len(messages) - len(futures))
            await self._give_up(futures, generation)
            channel = None
        finally:
            self._free.put_nowait(channel)
            if channel is not None:
                for message in messages:
                    channel.message_id_delivery_tag.pop(message.properties.message_id or "", None)
        return errors

    async def _give_up(self, futures: list[asyncio.Future[object]], generation: int) -> None:
        """Leaves a connection that did not confirm, unless the broker only blocks it: it would hold ever more."""
        for future in futures:
            future.cancel()
        if not await self._link.blocked():
            await self._link.drop(generation)


def _without_twins(messages: Sequence[Outgoing]) -> list[list[int]]:
    """Indexes in parts in which no message id is twice, since a return names nothing but the message id."""
    ids = [message.properties.message_id for message in messages]
    if len(set(ids)) == len(ids):
        return [list(range(len(ids)))]
    parts: list[list[int]] = []
    seen: dict[str | None, int] = {}
    for at, message_id in enumerate(ids):
        turn = seen.get(message_id, 0)
        seen[message_id] = turn + 1
        if turn == len(parts):
            parts.append([])
        parts[turn].append(at)
    return parts


async def _write(channel: Channel, messages: list[Outgoing], futures: list[asyncio.Future[object]]) -> None:
    """Writes all frames as one, and registers with the channel what its confirms and returns will be told by.

    Raises:
        _Unwritable: before anything is written or registered.
    """
    loop = asyncio.get_running_loop()
    parts: list[bytes] = []
    unwritable: dict[int, Unpublishable] = {}
    for at, message in enumerate(messages):
        try:
            parts += _frames(channel, message)
        except (TypeError, ValueError, ArithmeticError, struct.error) as error:
            unwritable[at] = Unpublishable(f"it can't be written as AMQP: {error}")
    if unwritable:
        raise _Unwritable(unwritable)
    async with channel.lock:
        for message in messages:
            channel.delivery_tag += 1
            future: asyncio.Future[object] = loop.create_future()
            futures.append(future)
            channel.confirmations[channel.delivery_tag] = future
            channel.message_id_delivery_tag[message.properties.message_id or ""] = channel.delivery_tag
        await channel.write_queue.put(ChannelFrame(payload=b"".join(parts), should_close=False))


def _frames(channel: Channel, message: Outgoing) -> list[bytes]:
    number, most = channel.number, channel.max_content_size
    header = frames.header(number, message.properties.marshal(), len(message.body))
    if len(header) > most:
        # The broker ends a connection over it.
        raise ValueError(f"its headers are {len(header)} bytes, and a frame holds {most}")
    return [
        frames.publish(number, message.exchange, message.routing_key),
        header,
        *frames.body(number, message.body, most),
    ]


async def _settled(channel: Channel, futures: list[asyncio.Future[object]]) -> None:
    """Waits for all confirms and returns.

    Raises:
        BrokerUnavailable: the channel is gone, and the rest will never be told.
    """
    closing = channel.closing
    try:
        for future in futures:
            if not future.done():
                await asyncio.wait((future, closing), return_when=asyncio.FIRST_COMPLETED)
                if not future.done():
                    raise BrokerUnavailable("the channel closed before RabbitMQ confirmed")
    finally:
        if not closing.done():
            closing.cancel()


def _error_of(future: asyncio.Future[object]) -> BrokerUnavailable | None:
    if future.cancelled():
        return BrokerUnavailable("the channel closed before RabbitMQ confirmed")
    error = future.exception()
    if error is None:
        return None
    if isinstance(error, PublishError):
        return Unroutable(f"no queue takes it: {error}")
    return BrokerUnavailable(f"RabbitMQ did not take the message: {type(error).__name__}")
