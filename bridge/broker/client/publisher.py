"""Publishes messages in bursts: persistent, mandatory, confirmed, within a time limit.

A burst writes the frames of all its messages at once and waits for their confirms together. aio-pika's `publish` costs
100 µs a message, most of it for one task, one lock and one drained socket. pamqp's frames cost another 20 µs.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Sequence
from contextlib import suppress
from math import inf
from time import monotonic
from typing import Final, Protocol

from aio_pika.exceptions import ChannelNotFoundEntity, ChannelPreconditionFailed
from aiormq.exceptions import ChannelAccessRefused

from bridge.broker.client import frames
from bridge.broker.client.channel import Channel
from bridge.broker.client.connection import BreakerOpen, BrokerConnection, translated
from bridge.broker.client.encode_properties import CopyProperties, encode_properties
from bridge.broker.client.protocol import OVERHEAD
from bridge.broker.copies.properties import Properties
from bridge.metrics.broker import CONFIRM_SECONDS, Failure, failed
from bridge.model.errors import BrokerUnavailable, ExchangeRefused, NotPublished, Unpublishable, Unroutable
from bridge.model.fast_dataclass import fast_dataclass
from bridge.model.time_limit import STALLED_S, TimeLimit

_CLOSED_WITHIN_S: Final = 0.2
_TO_SILENT: Final = 2
"""The most bursts in flight to queues that have not confirmed lately."""


@fast_dataclass(frozen=True, slots=True)
class Outgoing:
    """A message to publish. `properties.message_id` has to be set: RabbitMQ names only this id when it returns a
    message."""

    exchange: str
    routing_key: str
    properties: Properties | CopyProperties
    body: bytes


class Answers(Protocol):
    """Remembers which queues do not confirm."""

    def note(self, messages: Sequence[Outgoing], errors: Sequence[BrokerUnavailable | None]) -> None:
        """Takes the answers to a burst: for each message None if it is confirmed, or its error. Publishers call this
        when RabbitMQ has answered for all messages, or when only some queues have not answered in time."""
        ...

    def silent(self, messages: Sequence[Outgoing]) -> list[int]:
        """Returns the indexes of the messages whose queues did not confirm the latest message to them."""
        ...


class _Unwritable(Exception):
    """Some messages of a burst can't be encoded, so no message was written. `errors`: by index in the burst."""

    def __init__(self, errors: dict[int, Unpublishable]) -> None:
        self.errors = errors


class Publisher:
    """Publishes over a few channels of `connection`. Each channel has one burst in flight at a time."""

    def __init__(
        self,
        connection: BrokerConnection,
        *,
        timeout_ms: int,
        answers: Answers,
        channels: int = 8,
        to_others: bool = False,
    ) -> None:
        """`timeout_ms`: the limit for one burst. `channels`: the most bursts in flight. `to_others`: the publisher
        publishes to exchanges of other applications. Such an exchange may be missing, or closed to the bridge's user.
        RabbitMQ then closes the channel, and the connection stays open."""
        self.connection = connection
        self._answers = answers
        self._to_silent = asyncio.Semaphore(_TO_SILENT)
        self._to_others = to_others
        self._timeout_s = timeout_ms / 1_000
        self._free: asyncio.Queue[Channel | None] = asyncio.Queue()
        for _ in range(channels):
            self._free.put_nowait(None)

    async def publish(self, messages: Sequence[Outgoing]) -> list[BrokerUnavailable | None]:
        """Publishes all messages. Returns for each message None if it is confirmed, or the error. Even after an error
        the message may be in its queue, unless the error is a `NotPublished`. `Unroutable`: the broker has no queue for
        the message. `Unpublishable`: the message can't be encoded, or RabbitMQ will never take it.
        """
        silent = self._answers.silent(messages)
        if not silent:
            return await self._publish(messages)
        if len(silent) == len(messages):
            return await self._publish_to_silent(messages)
        left = sorted({*range(len(messages))} - {*silent})
        published = await asyncio.gather(
            self._publish([messages[at] for at in left]), self._publish_to_silent([messages[at] for at in silent])
        )
        errors = dict(zip(left, published[0], strict=True)) | dict(zip(silent, published[1], strict=True))
        return [errors[at] for at in range(len(messages))]

    async def _publish_to_silent(self, messages: Sequence[Outgoing]) -> list[BrokerUnavailable | None]:
        """Publishes messages to queues that have not confirmed lately. They have few channels, and share these with no
        other message. On a new channel RabbitMQ waits for such a queue before it takes the next message."""
        try:
            async with TimeLimit(self._timeout_s):
                await self._to_silent.acquire()
        except TimeoutError:
            return _unpublished(messages, Failure.BUSY, "other messages are waiting for queues that do not confirm")
        try:
            return await self._publish(messages)
        finally:
            self._to_silent.release()

    async def _publish(self, messages: Sequence[Outgoing]) -> list[BrokerUnavailable | None]:
        errors: list[BrokerUnavailable | None] = [None] * len(messages)
        for indexes in _without_repeated_ids(messages):
            burst_errors = await self._publish_writable([messages[at] for at in indexes])
            for at, error in zip(indexes, burst_errors, strict=True):
                errors[at] = error
        return errors

    async def publish_one(self, message: Outgoing) -> None:
        """Publishes one message.

        Raises:
            BrokerUnavailable: the message was not confirmed.
        """
        (error,) = await self.publish([message])
        if error is not None:
            raise error

    async def _publish_writable(self, messages: list[Outgoing]) -> list[BrokerUnavailable | None]:
        try:
            return await self._bursts(messages)
        except _Unwritable as unwritable:
            failed(Failure.UNWRITABLE, len(unwritable.errors))
            errors: list[BrokerUnavailable | None] = [unwritable.errors.get(at) for at in range(len(messages))]
        rest = [at for at, error in enumerate(errors) if error is None]
        if rest:
            for at, error in zip(rest, await self._bursts([messages[at] for at in rest]), strict=True):
                errors[at] = error
        return errors

    async def _bursts(self, messages: list[Outgoing]) -> list[BrokerUnavailable | None]:
        """Publishes the messages in one burst. Returns None or the error for each message. If RabbitMQ closes the
        channel over one message, publishes the unanswered messages again in halves, until only that message is refused.

        RabbitMQ may have taken some unanswered messages in the first burst. A consumer may get these messages twice. A
        later `NotPublished` for one of them becomes `BrokerUnavailable`."""
        errors = await self._burst(messages)
        refused = [at for at, error in enumerate(errors) if isinstance(error, Unpublishable)]
        if len(refused) > 1:
            half = len(refused) // 2
            for part in (refused[:half], refused[half:]):
                for at, error in zip(part, await self._bursts([messages[at] for at in part]), strict=True):
                    errors[at] = BrokerUnavailable(str(error)) if type(error) is NotPublished else error
        return errors

    async def _burst(self, messages: list[Outgoing]) -> list[BrokerUnavailable | None]:
        if self.connection.is_blocked:
            # If this waited, callers would wait behind each other.
            self.connection.doubt()
            return _unpublished(messages, Failure.BLOCKED, "RabbitMQ blocks publishers: a memory or disk alarm")
        try:
            async with TimeLimit(self._timeout_s):
                free = await self._free.get()
        except TimeoutError:
            return _unpublished(messages, Failure.BUSY, "all publishing channels are waiting for RabbitMQ")
        generation, called_s = self.connection.generation, monotonic()
        written, began_s, others_s = False, called_s, -inf
        try:
            if free is None or not free.is_open:
                free = None
                free = await self.connection.channel(confirms=True)
                generation = self.connection.generation
            async with self.connection.asking(self._timeout_s):
                # Waits while the broker blocks publishers.
                await free.transport.until_unblocked()
                _write(free, messages)
                all_answered = free.confirms.begin([message.properties.message_id or "" for message in messages])
                written, began_s = True, monotonic()
                try:
                    refusal = await _until_answered(free, all_answered, to_others=self._to_others)
                finally:
                    others_s = self.connection.confirmed_s
                    if free.confirms.any_confirmed:
                        self.connection.confirmed_s = monotonic()
                CONFIRM_SECONDS.observe(monotonic() - began_s)
                if free.confirms.any_refused and refusal is None:
                    # A channel whose first publish to a quorum queue found the leader's node down asks that node for
                    # ever, even after another node became leader (RabbitMQ 3.10). A new channel asks for the leader.
                    await free.close()
            errors = _counted(free.confirms.errors(refusal))
            self._answers.note(messages, errors)
        except BreakerOpen as error:
            # The connection stays open: another call may be trying it.
            errors = _unpublished(messages, Failure.BREAKER, str(error))
        except BrokerUnavailable as error:
            if free is not None and written:
                errors = _counted(free.confirms.errors(error), error)
                if isinstance(error.__cause__, TimeoutError) and self._concerns_its_queues(began_s, others_s):
                    self._answers.note(messages, errors)
            else:
                errors = _unpublished(messages, Failure.UNREACHABLE, str(error))
            unconfirmed, free = free, None
            await self._leave(unconfirmed, called_s, generation)
        finally:
            self._free.put_nowait(free)
        return errors

    def _concerns_its_queues(self, began_s: float, others_s: float) -> bool:
        """Whether a burst whose time limit has just passed shows that its queues do not confirm: other bursts were
        confirmed in the latter half of the wait. False if this process was paused, since the confirms may lie unread.

        `began_s`: when the burst was written. `others_s`: when another burst was last confirmed, both in seconds of
        `monotonic()`.
        """
        now_s = monotonic()
        stood_still = now_s - began_s > self._timeout_s + STALLED_S
        return not stood_still and not self.connection.is_blocked and others_s > now_s - self._timeout_s / 2

    async def _leave(self, unconfirmed: Channel | None, called_s: float, generation: int) -> None:
        """Closes a channel that did not confirm in time, because unconfirmed messages would pile up. If no queue has
        confirmed over the connection since `called_s`, closes the whole connection instead. If the broker only blocks
        publishers, both stay open.

        `unconfirmed`: the channel; None: no channel was open. `called_s`: when the burst began, in seconds of
        `monotonic()`.
        `generation`: the number of the connection.
        """
        if self.connection.is_blocked:
            return
        if self.connection.confirmed_s < called_s:
            await self.connection.drop(generation)
        elif unconfirmed is not None:
            # Only the queues of this burst do not confirm. Messages for other queues are in flight on other channels.
            with suppress(BrokerUnavailable):
                async with translated(_CLOSED_WITHIN_S):
                    await unconfirmed.close()


def _unpublished(messages: Sequence[Outgoing], cause: Failure, says: str) -> list[BrokerUnavailable | None]:
    """Returns a `NotPublished` for each message, because none was written, and counts these errors. `cause`: the reason
    in the metric. `says`: the text of the errors."""
    failed(cause, len(messages))
    return [NotPublished(says)] * len(messages)


def _counted(
    errors: list[BrokerUnavailable | None], unanswered: BrokerUnavailable | None = None
) -> list[BrokerUnavailable | None]:
    """Counts the errors of messages that were written, and returns them. `unanswered`: the error of messages without an
    answer."""
    for error in filter(None, errors):
        answered = Failure.UNROUTABLE if isinstance(error, Unroutable) else Failure.REFUSED
        failed(Failure.UNCONFIRMED if error is unanswered else answered, 1)
    return errors


def _without_repeated_ids(messages: Sequence[Outgoing]) -> list[list[int]]:
    """Groups the messages so that no message id is in a group twice. Returns lists of indexes.

    RabbitMQ names only the message id when it returns a message.
    """
    ids = [message.properties.message_id for message in messages]
    if len(set(ids)) == len(ids):
        return [list(range(len(ids)))]
    groups: list[list[int]] = []
    seen: dict[str | None, int] = {}
    for at, message_id in enumerate(ids):
        repeats = seen.get(message_id, 0)
        seen[message_id] = repeats + 1
        if repeats == len(groups):
            groups.append([])
        groups[repeats].append(at)
    return groups


def _write(channel: Channel, messages: list[Outgoing]) -> None:
    """Writes the frames of all messages at once. The broker can't answer before this function returns.

    Raises:
        _Unwritable: some messages can't be encoded, so nothing was written.
    """
    pieces: list[bytes] = []
    unwritable: dict[int, Unpublishable] = {}
    for at, message in enumerate(messages):
        try:
            pieces += _frames(channel, message)
        except (TypeError, ValueError, ArithmeticError, struct.error) as error:
            unwritable[at] = Unpublishable(f"the message can't be written as AMQP: {error}")
    if unwritable:
        raise _Unwritable(unwritable)
    channel.write(b"".join(pieces))


def _frames(channel: Channel, message: Outgoing) -> list[bytes]:
    number, frame_size = channel.number, channel.transport.largest_frame - OVERHEAD
    header = frames.header(number, encode_properties(message.properties), len(message.body))
    if len(header) > frame_size:
        # The broker ends a connection over it.
        raise ValueError(f"its headers are {len(header)} bytes, and a frame holds {frame_size}")
    return [
        frames.publish(number, message.exchange, message.routing_key),
        header,
        *frames.body(number, message.body, frame_size),
    ]


async def _until_answered(
    channel: Channel, all_answered: asyncio.Future[None], *, to_others: bool
) -> ExchangeRefused | Unpublishable | None:
    """Waits until RabbitMQ has answered for every message of a burst, and returns None. If RabbitMQ closed the channel
    over a message, or over an exchange of another application, returns the error for the messages without an answer.

    `all_answered`: done when RabbitMQ has answered for every message. `to_others`: the messages go to exchanges of
    other applications.

    Raises:
        BrokerUnavailable: the channel closed, and the other answers will never come.
    """
    await asyncio.wait((all_answered, channel.ended), return_when=asyncio.FIRST_COMPLETED)
    if all_answered.done():
        return None
    why = channel.error
    if to_others and isinstance(why, ChannelNotFoundEntity | ChannelAccessRefused):
        return ExchangeRefused(str(why), missing=isinstance(why, ChannelNotFoundEntity))
    if isinstance(why, ChannelPreconditionFailed):
        # For example a `reply_to` that RabbitMQ keeps for itself, or a body beyond its `max_message_size`.
        return Unpublishable(f"RabbitMQ refuses the message: {why}")
    raise BrokerUnavailable("the channel closed before RabbitMQ confirmed")
