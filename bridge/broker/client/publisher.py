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

from bridge.broker.client import frames
from bridge.broker.client.confirms import Confirms
from bridge.broker.client.connection import BrokerConnection, Refused
from bridge.model.errors import BrokerUnavailable, Unpublishable
from bridge.model.fast_dataclass import fast_dataclass


class Properties(Protocol):
    """Those of a message, as pamqp has them or `copies` writes them."""

    @property
    def message_id(self) -> str | None: ...

    def marshal(self) -> bytes:
        """
        Raises:
            TypeError, ValueError, ArithmeticError, struct.error: they can't be written.
        """


@fast_dataclass(frozen=True, slots=True)
class Outgoing:
    """A message to publish. `properties.message_id` is set: a return is told by it."""

    exchange: str
    routing_key: str
    properties: Properties
    body: bytes


@dataclass(frozen=True, slots=True)
class _Place:
    """A channel for one burst at a time."""

    channel: Channel
    confirms: Confirms


class _Unwritable(Exception):
    """Nothing of a burst was written, since some of it can't be. `errors`: by place."""

    def __init__(self, errors: dict[int, Unpublishable]) -> None:
        self.errors = errors


class Publisher:
    """Publishes over a few channels of one link, one burst at a time on each."""

    def __init__(self, link: BrokerConnection, *, timeout_ms: int, channels: int = 8) -> None:
        self._link = link
        self._timeout_s = timeout_ms / 1_000
        self._free: asyncio.Queue[_Place | None] = asyncio.Queue()
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
        if await self._link.blocked():
            # Waiting would only have callers wait behind each other.
            return [BrokerUnavailable("RabbitMQ blocks publishers: a memory or disk alarm")] * len(messages)
        try:
            async with asyncio.timeout(self._timeout_s):
                place = await self._free.get()
        except TimeoutError:
            return [BrokerUnavailable("all publishing channels are waiting for RabbitMQ")] * len(messages)
        generation = self._link.generation
        written = False
        try:
            if place is None or place.channel.is_closed:
                place = None
                channel = await self._link.channel(confirms=True)
                place = _Place(channel, self._link.intake(channel).publisher(channel))
                generation = self._link.generation
            async with self._link.asking(self._timeout_s):
                # Waits while the broker blocks publishers.
                await place.channel.connection.ready()
                await _write(place.channel, messages)
                told = place.confirms.begin([message.properties.message_id or "" for message in messages])
                written = True
                await _settled(place.channel, told)
                if place.confirms.any_refused:
                    # A channel whose first publish to a quorum queue found the leader's node down asks that node for
                    # ever, whoever leads since (RabbitMQ 3.10); a new one asks who leads.
                    await place.channel.close()
            return place.confirms.errors()
        except Refused as error:
            # The connection is left alone: another call may be trying it.
            return [error] * len(messages)
        except BrokerUnavailable as error:
            errors: list[BrokerUnavailable | None] = [error] * len(messages)
            if place is not None and written:
                errors = place.confirms.errors(error)
            place = None
            # A connection that did not confirm is left, unless the broker only blocks it: it would hold ever more.
            if not await self._link.blocked():
                await self._link.drop(generation)
            return errors
        finally:
            self._free.put_nowait(place)


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


async def _write(channel: Channel, messages: list[Outgoing]) -> None:
    """Writes all frames as one. Once it returns, and not before, the broker may answer.

    Raises:
        _Unwritable: before anything is written.
    """
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


async def _settled(channel: Channel, told: asyncio.Future[None]) -> None:
    """Waits until all of a burst is told.

    Raises:
        BrokerUnavailable: the channel is gone, and the rest will never be told.
    """
    closing = channel.closing
    try:
        await asyncio.wait((told, closing), return_when=asyncio.FIRST_COMPLETED)
        if not told.done():
            raise BrokerUnavailable("the channel closed before RabbitMQ confirmed")
    finally:
        if not closing.done():
            closing.cancel()
