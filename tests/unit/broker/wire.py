"""A connection without a server: a test feeds the bytes that RabbitMQ would send, and reads what was written."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any, cast

from pamqp import commands as spec
from pamqp.base import Frame
from pamqp.body import ContentBody
from pamqp.frame import FrameTypes, marshal, unmarshal
from pamqp.header import ContentHeader

from bridge.broker.client.channel import Channel
from bridge.broker.client.protocol import PROTOCOL_HEADER
from bridge.broker.client.transport import Transport

BODY_MAX = 16


class Wire:
    """A `Transport`, and both ends of its bytes."""

    def __init__(self) -> None:
        self.written = bytearray()
        self.aborted = self.closed = False
        self.transport = Transport()
        self.transport.connection_made(cast(asyncio.Transport, self))
        assert self.take() == [PROTOCOL_HEADER]

    # As `asyncio.Transport`

    def write(self, data: bytes) -> None:
        self.written += data

    def abort(self) -> None:
        self.aborted = True

    def close(self) -> None:
        self.closed = True

    # As RabbitMQ

    def feed(self, *chunks: bytes) -> None:
        """Lets bytes arrive."""
        for chunk in chunks:
            for start in range(0, len(chunk), 65_536):
                part = chunk[start : start + 65_536]
                self.transport.get_buffer(-1)[: len(part)] = part
                self.transport.buffer_updated(len(part))

    def say(self, number: int, *frames: FrameTypes) -> None:
        """Sends frames on a channel."""
        self.feed(b"".join(marshal(frame, number) for frame in frames))

    def take(self) -> list[Any]:
        """Returns what was written since the last call: frames as channel and method, other bytes as they are."""
        data = bytes(self.written)
        found: list[Any] = []
        self.written.clear()
        while data:
            if data.startswith(b"AMQP"):
                found.append(data[:8])
                data = data[8:]
                continue
            size, number, frame = unmarshal(data)
            found.append((number, frame))
            data = data[size:]
        return found

    def names(self) -> list[tuple[int, str]]:
        """Returns channel and name of each frame that was written since the last call."""
        return [(number, frame.name) for number, frame in self.take()]

    def channel(self) -> Channel:
        """Returns a channel, as it is once it was opened."""
        return Channel(self.transport)


def delivery(number: int, consumer: str, tag: int, body: bytes) -> list[bytes]:
    """Returns the frames of a delivery. Its message id is `m-<tag>`."""
    method = spec.Basic.Deliver(consumer_tag=consumer, delivery_tag=tag, exchange="delay.due", routing_key=f"key-{tag}")
    return [marshal(method, number), *content(number, f"m-{tag}", body)]


def content(number: int, message_id: str, body: bytes) -> list[bytes]:
    """Returns the frames behind the method of a message."""
    parts: list[Frame | ContentHeader | ContentBody] = [
        ContentHeader(properties=spec.Basic.Properties(message_id=message_id), body_size=len(body)),
        *(ContentBody(body[start : start + BODY_MAX]) for start in range(0, len(body), BODY_MAX)),
    ]
    return [marshal(part, number) for part in parts]


def cut(data: bytes, at: Iterable[int]) -> Iterator[bytes]:
    """Cuts bytes at these places."""
    places = [0, *sorted(place % (len(data) + 1) for place in at), len(data)]
    return (data[start:end] for start, end in pairwise(places))
