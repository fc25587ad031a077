"""Calls methods on a channel, and takes deliveries, answers to gets, confirms and returns out of its frames."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from enum import Enum
from functools import partial
from typing import Final
from uuid import uuid4

from aio_pika.exceptions import AMQPError, ChannelClosed, ChannelNotFoundEntity, ChannelPreconditionFailed
from aiormq.exceptions import ChannelAccessRefused
from pamqp import commands
from pamqp.base import Frame
from pamqp.commands import Basic, Confirm, Queue
from pamqp.frame import unmarshal

from bridge.broker.client import frames, methods, protocol
from bridge.broker.client.acknowledger import Acknowledger
from bridge.broker.client.confirms import Confirms
from bridge.broker.client.content import Content
from bridge.broker.client.decode_properties import decode_properties
from bridge.broker.client.delivery import Delivery
from bridge.broker.client.gets import Gets, Got
from bridge.broker.client.methods import Came, Closed
from bridge.broker.client.transport import Transport
from bridge.model.errors import BrokerUnavailable

Received = Callable[[Delivery], None]
Cancelled = Callable[[], object]
"""A function that is called when RabbitMQ cancels a consumer, because somebody deleted its queue."""

_REFUSALS: Final = {403: ChannelAccessRefused, 404: ChannelNotFoundEntity, 406: ChannelPreconditionFailed}
_CLOSE: Final = commands.Channel.Close(reply_code=200, reply_text="", class_id=0, method_id=0)
_Consumer = tuple[Received, Cancelled]


class _State(Enum):
    OPEN = "frames can be written"
    CLOSING = "we have written a Close, and RabbitMQ has not answered"
    CLOSED = "both sides know that the channel is closed, or the connection is lost"


class Channel:
    """A channel of AMQP 0-9-1. `ended`: a future, done when the channel is closed or lost; `error` then says why.

    Each call raises BrokerUnavailable if the channel is closed or the connection was lost. It raises ChannelClosed if
    RabbitMQ refuses the call.

    RabbitMQ ends the whole connection (504, expected 'channel.open') if a frame follows a channel's Close or Close-Ok.
    So the channel writes nothing after either frame.
    """

    def __init__(self, transport: Transport) -> None:
        self.transport = transport
        self.number = transport.number(self)
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.error: AMQPError | BrokerUnavailable | None = None
        self.confirms = Confirms()
        self._gets = Gets(self)
        self.acknowledger = Acknowledger(self)
        self._state = _State.OPEN
        self._calls: deque[tuple[Sequence[str], asyncio.Future[Frame]]] = deque()
        self._consumers: dict[bytes, _Consumer] = {}
        self._content: Content | None = None

    @property
    def is_open(self) -> bool:
        """Whether frames can be written."""
        return self._state is _State.OPEN and self.transport.is_open

    def write(self, payload: bytes) -> None:
        """Writes frames to RabbitMQ. `payload`: the bytes of one or more whole frames.

        Raises:
            BrokerUnavailable: the channel is closed or being closed, and nothing was written.
        """
        if self._state is not _State.OPEN:
            raise BrokerUnavailable(f"the channel is closed: {self.error or 'the bridge closes it'}")
        self.transport.write(payload)

    async def rpc(self, frame: Frame) -> Frame:
        """Calls a method, and returns RabbitMQ's answer. If the caller is cancelled before the answer, nobody knows
        what RabbitMQ has done: the channel closes.

        Raises:
            BrokerUnavailable: the channel is closed, or the connection was lost.
            ChannelClosed: RabbitMQ refused the call, and closed the channel.
        """
        self.write(frames.method(self.number, frame))
        answer: asyncio.Future[Frame] = asyncio.get_running_loop().create_future()
        self._calls.append((frame.valid_responses, answer))
        try:
            return await answer
        except asyncio.CancelledError:
            self._begin_to_close()
            raise

    async def close(self) -> None:
        """Closes the channel. RabbitMQ requeues all unacknowledged deliveries. Returns at once if the channel is
        already being closed, for example because a call timed out. RabbitMQ may not answer then."""
        if self._state is _State.OPEN:
            self._begin_to_close()
            await asyncio.wait((self.ended,))

    # Taking messages

    async def depth(self, queue: str) -> int:
        """Returns how many messages are ready in the queue.

        Raises:
            BrokerUnavailable: the channel is closed, or the connection was lost.
            ChannelNotFoundEntity: there is no such queue, and RabbitMQ has closed the channel.
        """
        answer = await self.rpc(Queue.Declare(queue=queue, passive=True))
        return (isinstance(answer, Queue.DeclareOk) and answer.message_count) or 0

    async def set_prefetch(self, count: int) -> None:
        """Sets the prefetch: each consumer that begins later holds at most `count` unacknowledged deliveries."""
        await self.rpc(Basic.Qos(prefetch_count=count))

    async def get(self, queue: str) -> Got:
        """Takes the oldest message of the queue. Returns it with the number of messages behind it (`Got`). If the
        caller is cancelled, the bridge requeues the message.

        Raises:
            BrokerUnavailable: the channel is closed, or the connection was lost.
            ChannelNotFoundEntity: there is no such queue, and RabbitMQ has closed the channel.
            GetNotRead: RabbitMQ closed the channel over an earlier get, and has not read this one.
        """
        return await self._gets.get(queue)

    async def consume(self, queue: str, received: Received, tag: str, cancelled: Cancelled = lambda: None) -> None:
        """Begins to consume the queue, and returns when RabbitMQ has answered. The channel calls `received` with each
        delivery, until `cancel` or `forget`. `tag`: a consumer tag from `new_tag`. `cancelled`: called if RabbitMQ
        cancels the consumer."""
        self._consumers[tag.encode()] = (received, cancelled)
        try:
            await self.rpc(Basic.Consume(queue=queue, consumer_tag=tag))
        except BaseException:
            self.forget(tag)
            raise

    async def cancel(self, tag: str) -> None:
        """Cancels a consumer. Before this method returns, messages on their way to the consumer arrive, or RabbitMQ
        requeues them."""
        try:
            if tag.encode() in self._consumers:
                await self.rpc(Basic.Cancel(consumer_tag=tag))
        finally:
            self.forget(tag)

    def forget(self, tag: str) -> None:
        """Ignores further deliveries of a consumer. `tag`: its consumer tag."""
        self._consumers.pop(tag.encode(), None)

    # Ending

    def _begin_to_close(self) -> None:
        if self.is_open:  # else the channel ends with its connection
            self.write(frames.method(self.number, _CLOSE))
            self._state = _State.CLOSING

    def lost(self, error: BrokerUnavailable) -> None:
        """Ends the channel, because the connection is closed or lost. All calls and gets that wait for an answer fail
        with the error."""
        self._end(error)

    def _end(self, error: AMQPError | BrokerUnavailable) -> None:
        if self._state is _State.CLOSED:
            return
        self._state = _State.CLOSED
        self.error = error
        self._consumers.clear()
        self._content = None
        for _, call in self._calls:
            if not call.done():
                call.set_exception(type(error)(*error.args))
        self._gets.fail(error)
        self.ended.set_result(None)

    def _closed(self, why: Closed) -> None:
        refusal = _REFUSALS.get(why.code)
        self.error = ChannelClosed(why.code, why.text) if refusal is None else refusal(why.text)
        if self.transport.is_open:
            self.transport.write(frames.method(self.number, commands.Channel.CloseOk()))
        if self._state is _State.OPEN:
            self.transport.release(self.number)
            self._end(self.error)
        # Else RabbitMQ still answers our Close, and the number must not be used before.

    # Reading

    def received(self, kind: int, data: bytes, start: int, end: int) -> None:
        """Takes a frame of this channel. `kind`: the frame's kind, such as `protocol.METHOD`. The frame's payload is
        `data[start:end]`."""
        if kind == protocol.METHOD:
            self._content = None
            self._method(data, start, end)
        elif (content := self._content) is not None and content.add(kind, data[start:end]):
            self._content = None
            content.end()

    def _method(self, data: bytes, start: int, end: int) -> None:
        method, at = methods.number(data, start)
        match method:
            case protocol.DELIVER:
                consumer, came = methods.deliver(data, at)
                if consumer in self._consumers:
                    self._content = Content(partial(self._delivered, consumer, came))
                # Else the caller has gone. RabbitMQ requeues the message when the channel closes.
            case protocol.ACK:
                tag, multiple = methods.confirm(data, at)
                self.confirms.confirmed(tag, multiple=multiple)
            case protocol.NACK:
                tag, multiple = methods.confirm(data, at)
                self.confirms.refused(tag, multiple=multiple)
            case protocol.GET_OK:
                came, behind = methods.get_ok(data, at)
                self._content = Content(partial(self._got, came, behind))
            case protocol.GET_EMPTY:
                self._gets.answered(None, 0)
            case protocol.RETURN:
                self._content = Content(partial(self._returned, methods.returned(data, at)))
            case protocol.CANCEL:
                self._cancelled(methods.cancel(data, at))
            case protocol.CHANNEL_CLOSE:
                self._closed(methods.close(data, at))
            case _:
                self._answered(unmarshal(data[start - protocol.FRAME.size : end + 1])[2])

    def _answered(self, method: object) -> None:
        match method:
            case commands.Channel.CloseOk():
                self.transport.release(self.number)
                self._end(self.error or BrokerUnavailable("the bridge closed it"))
            case Frame():
                # A queue answers a consume or a cancel later than RabbitMQ a call behind it.
                for call in self._calls:
                    accepted, answer = call
                    if method.name in accepted:
                        self._calls.remove(call)
                        if not answer.done():
                            answer.set_result(method)
                        break

    def _delivered(self, consumer: bytes, came: Came, header: bytes, body: bytes) -> None:
        if consumer not in self._consumers:
            return
        received, _ = self._consumers[consumer]
        _run_callback(received, self._delivery(came, header, body))

    def _cancelled(self, consumer: bytes) -> None:
        if consumer in self._consumers:
            if self.transport.awaits_cancel_ok and self.is_open:
                self.write(frames.method(self.number, Basic.CancelOk(consumer_tag=consumer.decode())))
            _, cancelled = self._consumers.pop(consumer)
            _run_callback(cancelled)

    def _got(self, came: Came, behind: int, header: bytes, body: bytes) -> None:
        self._gets.answered(self._delivery(came, header, body), behind)

    def _delivery(self, came: Came, header: bytes, body: bytes) -> Delivery:
        tag, exchange, key, redelivered = came
        self.acknowledger.delivered(tag)
        return Delivery(self.acknowledger, tag, key, decode_properties(header), body, exchange, redelivered)

    def _returned(self, reason: str, header: bytes, _: bytes) -> None:
        self.confirms.returned(decode_properties(header).message_id, reason)


def _run_callback(callback: Callable[..., object], *arguments: object) -> None:
    """Calls a consumer's callback. Passes an exception of the callback to the event loop's exception handler, so the
    connection and its other consumers go on."""
    try:
        callback(*arguments)
    except Exception as error:  # noqa: BLE001 - the loop's handler gets it
        asyncio.get_running_loop().call_exception_handler({"message": "A consumer failed", "exception": error})


async def open_channel(transport: Transport, *, confirms: bool = False) -> Channel:
    """Opens a channel of the connection. `confirms`: RabbitMQ confirms the publishes on it.

    Raises:
        BrokerUnavailable: RabbitMQ is away, or does not answer in time.
    """
    channel = Channel(transport)
    await channel.rpc(commands.Channel.Open())
    if confirms:
        await channel.rpc(Confirm.Select())
    return channel


def new_tag() -> str:
    """Returns a consumer tag that was never used before."""
    return f"bridge-{uuid4().hex}"
