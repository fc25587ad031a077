"""Reads and writes frames."""

from __future__ import annotations

from functools import lru_cache
from struct import Struct
from typing import Final

from pamqp import frame
from pamqp.base import Frame
from pamqp.commands import Basic
from pamqp.exceptions import PAMQPException

from tests.simulate.rabbitmq.errors import Refusal
from tests.simulate.rabbitmq.tables import Properties

PROTOCOL: Final = b"AMQP\x00\x00\x09\x01"
FRAME: Final = Struct(">BHI")
METHOD, HEADER, BODY, HEARTBEAT = 1, 2, 3, 8
END: Final = b"\xce"
_CONTENT: Final = Struct(">HHQ")
_BASIC: Final = 60


class Publish:
    """A publish whose content has not come completely. `payload`: of its method frame."""

    def __init__(self, method: Basic.Publish, payload: bytes) -> None:
        self.method = method
        self.payload = payload
        self._properties: Properties | None = None
        self._missing_bytes = 0
        self._body = bytearray()

    def add(self, kind: int, payload: bytes) -> tuple[Properties, bytes] | None:
        """Adds a frame. Returns properties and body once they are complete."""
        if kind == HEADER:
            _, _, self._missing_bytes = _CONTENT.unpack_from(payload)
            self._properties = Properties.parse(payload[_CONTENT.size :])
        else:
            self._body += payload
            self._missing_bytes -= len(payload)
        if self._properties is None or self._missing_bytes > 0:
            return None
        return self._properties, bytes(self._body)


@lru_cache(4_096)  # each start of a bridge declares the same queues
def method_of(payload: bytes) -> Frame:
    """Decodes a method, which nobody may change. Raises Refusal: it is none."""
    try:
        method = frame.unmarshal(FRAME.pack(METHOD, 0, len(payload)) + payload + END)[2]
    except PAMQPException as error:
        raise Refusal(501, f"no method of AMQP 0-9-1: {error}") from error
    if not isinstance(method, Frame):
        raise Refusal(501, "no method of AMQP 0-9-1")
    return method


def content(number: int, method: Frame, properties: Properties, body: bytes, *, frame_size: int) -> bytes:
    """Encodes a method that carries a message. `frame_size`: the largest frame, in bytes."""
    header = _CONTENT.pack(_BASIC, 0, len(body)) + properties.encode()
    pieces = [frame.marshal(method, number), FRAME.pack(HEADER, number, len(header)), header, END]
    size = frame_size - FRAME.size - len(END)
    for at in range(0, len(body), size):
        piece = body[at : at + size]
        pieces += [FRAME.pack(BODY, number, len(piece)), piece, END]
    return b"".join(pieces)
