"""Speaks AMQP step by step, and shows each frame that matters. It adds nothing, and hides nothing.

aio-pika and the bridge's client decide much by themselves: which publishes are mandatory, what a lost channel means.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from struct import Struct
from typing import Any, Final, Self, TypeVar

from pamqp import commands, frame
from pamqp.base import Frame
from pamqp.body import ContentBody
from pamqp.commands import Basic
from pamqp.common import FieldTable
from pamqp.header import ContentHeader

WITHIN_S: Final = 20.0  # an answer, on a busy machine
_FRAME: Final = Struct(">BHI")
_CAPABILITIES: Final[FieldTable] = {
    "authentication_failure_close": True,
    "basic.nack": True,
    "connection.blocked": True,
    "consumer_cancel_notify": True,
    "publisher_confirms": True,
}


class Closed(Exception):
    """RabbitMQ closed the channel, or the connection. `code` 0: it cut the connection without a word."""

    def __init__(self, code: int, text: str, *, connection: bool) -> None:
        self.code = code
        self.text = text
        self.connection = connection
        super().__init__(f"{code} {text}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A message as it came. `how`: its method, such as a `Basic.Deliver`. `raw`: its header frame."""

    how: Basic.Deliver | Basic.GetOk | Basic.Return
    properties: Basic.Properties
    body: bytes
    raw: bytes

    @property
    def headers(self) -> Mapping[str, Any]:
        return self.properties.headers or {}

    @property
    def tag(self) -> int:
        assert not isinstance(self.how, Basic.Return)
        return self.how.delivery_tag or 0

    @property
    def redelivered(self) -> bool:
        assert not isinstance(self.how, Basic.Return)
        return bool(self.how.redelivered)

    @property
    def key(self) -> str:
        return self.how.routing_key or ""

    @property
    def exchange(self) -> str:
        return self.how.exchange or ""

    @property
    def deaths(self) -> list[dict[str, Any]]:
        """The entries of `x-death`, the latest first."""
        return list(self.headers.get("x-death", []))


Event = Message | Frame
Kind = TypeVar("Kind", bound=Frame)


class Channel:
    """A channel. Answers to calls and other events come in one queue each."""

    def __init__(self, client: Client, number: int) -> None:
        self.number = number
        self._client = client
        self._answers: asyncio.Queue[Event | Closed] = asyncio.Queue()
        self._events: asyncio.Queue[Event | Closed] = asyncio.Queue()
        self._content: tuple[Basic.Deliver | Basic.GetOk | Basic.Return, ContentHeader | None, bytes, bytes] | None
        self._content = None
        self._published = 0

    # Steps

    def send(self, method: Frame) -> None:
        """Sends a method that has no answer."""
        self._client.write(frame.marshal(method, self.number))

    async def call(self, method: Frame, answer: type[Kind]) -> Kind:
        """Calls a method. Raises Closed: RabbitMQ refused it."""
        self.send(method)
        found = await _next(self._answers)
        assert isinstance(found, answer), found
        return found

    async def declare(self, queue: str, **arguments: Any) -> commands.Queue.DeclareOk:
        """Declares a durable queue: a quorum queue, if the arguments name no other type. In names of arguments `_`
        stands for `-`, and `x-` is put before them."""
        named = {f"x-{name.replace('_', '-')}": value for name, value in {"queue_type": "quorum", **arguments}.items()}
        return await self.call(
            commands.Queue.Declare(queue=queue, durable=True, arguments=named), commands.Queue.DeclareOk
        )

    async def look(self, queue: str) -> commands.Queue.DeclareOk:
        """Declares a queue passively."""
        return await self.call(commands.Queue.Declare(queue=queue, passive=True), commands.Queue.DeclareOk)

    async def declare_exchange(self, name: str, kind: str, **options: Any) -> None:
        method = commands.Exchange.Declare(exchange=name, exchange_type=kind, **options)
        await self.call(method, commands.Exchange.DeclareOk)

    async def bind(self, queue: str, exchange: str, key: str = "", **options: Any) -> None:
        method = commands.Queue.Bind(queue=queue, exchange=exchange, routing_key=key, **options)
        await self.call(method, commands.Queue.BindOk)

    async def bind_exchange(self, destination: str, source: str, key: str = "") -> None:
        method = commands.Exchange.Bind(destination=destination, source=source, routing_key=key)
        await self.call(method, commands.Exchange.BindOk)

    def write(
        self, key: str, body: bytes = b"", *, exchange: str = "", mandatory: bool = False, **properties: Any
    ) -> int:
        """Publishes, and waits for nothing. Returns the delivery tag of the publish."""
        header = ContentHeader(0, len(body), Basic.Properties(**{"delivery_mode": 2, **properties}))
        size = self._client.frame_size
        method = Basic.Publish(exchange=exchange, routing_key=key, mandatory=mandatory)
        data = frame.marshal(method, self.number) + frame.marshal(header, self.number)
        for at in range(0, len(body), size):
            data += frame.marshal(ContentBody(body[at : at + size]), self.number)
        self._client.write(data)
        self._published += 1
        return self._published

    def write_raw(self, key: str, header: bytes) -> None:
        """Publishes an empty message with this payload of a header frame."""
        publish = frame.marshal(Basic.Publish(exchange="", routing_key=key), self.number)
        self._client.write(publish + _FRAME.pack(2, self.number, len(header)) + header + b"\xce")
        self._published += 1

    async def publish(self, key: str, body: bytes = b"", **options: Any) -> None:
        """Publishes, and waits for the confirm. `options`: as in `write`."""
        tag = self.write(key, body, **options)
        answer = await self.event(Basic.Ack)
        assert answer.delivery_tag == tag, answer

    async def get(self, queue: str) -> Message | None:
        """Takes the next message with `basic.get`."""
        self.send(Basic.Get(queue=queue))
        answer = await _next(self._answers)
        assert isinstance(answer, Message | Basic.GetEmpty), answer
        return answer if isinstance(answer, Message) else None

    async def consume(self, queue: str, *, prefetch: int = 0, tag: str = "", **options: Any) -> str:
        """Begins a consumer. Returns its tag."""
        if prefetch:
            await self.call(Basic.Qos(prefetch_count=prefetch), Basic.QosOk)
        ok = await self.call(Basic.Consume(queue=queue, consumer_tag=tag, **options), Basic.ConsumeOk)
        return ok.consumer_tag or ""

    async def cancel(self, tag: str) -> None:
        await self.call(Basic.Cancel(consumer_tag=tag), Basic.CancelOk)

    def ack(self, tag: int, *, multiple: bool = False) -> None:
        self.send(Basic.Ack(delivery_tag=tag, multiple=multiple))

    def reject(self, tag: int, *, requeue: bool) -> None:
        self.send(Basic.Reject(delivery_tag=tag, requeue=requeue))

    def nack(self, tag: int, *, requeue: bool, multiple: bool = False) -> None:
        self.send(Basic.Nack(delivery_tag=tag, requeue=requeue, multiple=multiple))

    async def close(self) -> None:
        await self.call(commands.Channel.Close(200, "", 0, 0), commands.Channel.CloseOk)

    # What comes

    async def any_event(self) -> Event:
        """Returns the next delivery, return, confirm or cancel. Raises Closed."""
        return await _next(self._events)

    async def event(self, kind: type[Kind]) -> Kind:
        """Returns the next event, which is of this kind."""
        found = await self.any_event()
        assert isinstance(found, kind), found
        return found

    async def message(self) -> Message:
        """Returns the next event, which is a delivery or a return."""
        found = await self.any_event()
        assert isinstance(found, Message), found
        return found

    async def messages(self, count: int) -> list[Message]:
        return [await self.message() for _ in range(count)]

    async def is_closed(self) -> Closed:
        """Waits until RabbitMQ closes the channel or the connection, and returns why."""
        while True:
            try:
                await self.any_event()
            except Closed as closed:
                return closed

    async def is_quiet(self) -> bool:
        """Whether no event has come when RabbitMQ answers a call. It has written by then all that it had to write."""
        for _ in range(3):
            await self.call(Basic.Qos(prefetch_count=0), Basic.QosOk)
        return self._events.empty()

    # Reading

    def take(self, kind: int, payload: bytes) -> None:
        """Takes a frame."""
        found: Any = frame.unmarshal(_FRAME.pack(kind, self.number, len(payload)) + payload + b"\xce")[2]
        match found:
            case Basic.Deliver() | Basic.GetOk() | Basic.Return():
                self._content = (found, None, b"", b"")
            case ContentHeader() if self._content is not None:
                self._content = (self._content[0], found, payload, b"")
            case ContentBody() if self._content is not None:
                self._content = (*self._content[:3], self._content[3] + found.value)
            case commands.Channel.Close():
                self._client.write(frame.marshal(commands.Channel.CloseOk(), self.number))
                self.end(Closed(found.reply_code or 0, found.reply_text or "", connection=False))
            case Basic.Ack() | Basic.Nack() | Basic.Cancel():
                self._events.put_nowait(found)
            case _:
                self._answers.put_nowait(found)
        self._complete()

    def _complete(self) -> None:
        if self._content is None:
            return
        how, header, raw, body = self._content
        if header is not None and len(body) >= header.body_size:
            self._content = None
            message = Message(how=how, properties=header.properties, body=body, raw=raw)
            (self._answers if isinstance(how, Basic.GetOk) else self._events).put_nowait(message)

    def end(self, closed: Closed) -> None:
        """Lets all steps fail from now on."""
        self._answers.put_nowait(closed)
        self._events.put_nowait(closed)


class Client:
    """A connection to a broker. `server`: its server properties. `answers`: methods of the connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.server: Mapping[str, Any] = {}
        self.frame_size = 4_088
        self._reader = reader
        self._writer = writer
        self._answers: asyncio.Queue[Event | Closed] = asyncio.Queue()
        self._channels: dict[int, Channel] = {}
        self._reading = asyncio.create_task(self._read())

    @classmethod
    async def open(cls, port: int, vhost: str, *, password: str = "guest", channels: int = 2_047) -> Self:
        """Connects and logs in. Raises Closed."""
        client = cls(*await asyncio.open_connection("127.0.0.1", port))
        try:
            await client._log_in(vhost, password, channels)
        except BaseException:
            await client.close()
            raise
        return client

    async def _log_in(self, vhost: str, password: str, channels: int) -> None:
        self.write(b"AMQP\x00\x00\x09\x01")
        self.server = (await self.answer(commands.Connection.Start)).server_properties or {}
        login = commands.Connection.StartOk({"capabilities": _CAPABILITIES}, "PLAIN", f"\0guest\0{password}", "en_US")
        self.write(frame.marshal(login, 0))
        tune = await self.answer(commands.Connection.Tune)
        self.frame_size = (tune.frame_max or 4_096) - 8
        self.write(frame.marshal(commands.Connection.TuneOk(channels, tune.frame_max, 0), 0))
        self.write(frame.marshal(commands.Connection.Open(vhost), 0))
        await self.answer(commands.Connection.OpenOk)

    async def answer(self, kind: type[Kind]) -> Kind:
        """Returns the next method of the connection. Raises Closed."""
        found = await _next(self._answers)
        assert isinstance(found, kind), found
        return found

    async def channel(self, *, confirms: bool = False, number: int | None = None) -> Channel:
        channel = Channel(self, number or len(self._channels) + 1)
        self._channels[channel.number] = channel
        await channel.call(commands.Channel.Open(), commands.Channel.OpenOk)
        if confirms:
            await channel.call(commands.Confirm.Select(), commands.Confirm.SelectOk)
        return channel

    def write(self, data: bytes) -> None:
        self._writer.write(data)

    def cut(self) -> None:
        """Ends the TCP connection without a word."""
        self._writer.transport.abort()

    async def close(self) -> None:
        """Ends the connection at the end of a test, whatever its state is."""
        self.cut()
        await asyncio.wait([self._reading])

    async def _read(self) -> None:
        why = Closed(0, "the connection was cut", connection=True)
        try:
            while True:
                kind, number, size = _FRAME.unpack(await self._reader.readexactly(_FRAME.size))
                payload = (await self._reader.readexactly(size + 1))[:-1]
                if number:
                    self._channels[number].take(kind, payload)
                    continue
                method: Any = frame.unmarshal(_FRAME.pack(kind, 0, size) + payload + b"\xce")[2]
                if isinstance(method, commands.Connection.Close):
                    why = Closed(method.reply_code or 0, method.reply_text or "", connection=True)
                    self.write(frame.marshal(commands.Connection.CloseOk(), 0))
                    break
                self._answers.put_nowait(method)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        for channel in self._channels.values():
            channel.end(why)
        self._answers.put_nowait(why)


async def _next(queue: asyncio.Queue[Event | Closed]) -> Event:
    async with asyncio.timeout(WITHIN_S):
        found = await queue.get()
    if isinstance(found, Closed):
        queue.put_nowait(found)
        raise found
    return found
