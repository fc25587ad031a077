"""Reads and changes the two AMQP methods that the door inspects: `basic.publish` and `exchange.declare`. Pure.

Each frame here is whole: kind (1 byte), channel (2), size (4), payload, and the octet 206 at the end.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

HEAD_BYTES: Final = 7
PUBLISH: Final = 60 << 16 | 40  # class and method as the first four bytes of a payload: basic.publish
DECLARE: Final = 40 << 16 | 10  # exchange.declare
DELAYED_TYPE: Final = b"x-delayed-message"
LARGEST_PUBLISH: Final = 4 + 2 + 256 + 256 + 1
"""The largest payload of a publish, in bytes: class and method, ticket, two short texts, bits."""

_HEAD: Final = Struct(">BHI")
_CLOSE: Final = Struct(">HHH")
_METHOD: Final = 1
_CONNECTION, _CONNECTION_CLOSE = 10, 50
_NO_METHOD: Final = bytes(4)
_LONGEST_NAME: Final = 255
_EXCHANGE: Final = 13  # where the exchange's name begins in a frame of either method: behind method and ticket
_PASSIVE: Final = 1


class BadFrame(Exception):
    """The client sent bytes that are no frame of AMQP 0-9-1, or a frame that the door can't hold or change. The text
    says why."""


def exchange_of(frame: bytes) -> bytes:
    """Returns the name of the exchange in the frame of a publish."""
    return frame[_EXCHANGE + 1 : _EXCHANGE + 1 + frame[_EXCHANGE]]


def published_to(exchange: bytes, frame: bytes) -> bytes:
    """Returns the frame of a publish with `exchange` in place of the exchange that it names.

    Raises:
        BadFrame: the name is longer than AMQP allows.
    """
    if len(exchange) > _LONGEST_NAME:
        raise BadFrame(f"the exchange {exchange!r} has {len(exchange)} bytes; AMQP allows {_LONGEST_NAME}")
    rest = frame[_EXCHANGE + 1 + frame[_EXCHANGE] :]
    kind, channel, size = _HEAD.unpack_from(frame)
    head = _HEAD.pack(kind, channel, size + len(exchange) - frame[_EXCHANGE])
    return b"%b%b%c%b%b" % (head, frame[HEAD_BYTES:_EXCHANGE], len(exchange), exchange, rest)


def as_passive(frame: bytes) -> bytes | None:
    """Returns the frame of an exchange's declare with the bit `passive` set. None: the exchange is not of the plugin's
    type `x-delayed-message`.

    Raises:
        BadFrame: the texts in the declare are longer than the frame.
    """
    kind = _EXCHANGE + 1 + frame[_EXCHANGE]
    if kind >= len(frame) or frame[kind + 1 : kind + 1 + frame[kind]] != DELAYED_TYPE:
        return None
    bits = kind + 1 + frame[kind]
    if bits >= len(frame) - 1:
        raise BadFrame("a declare of an exchange ends before its bits")
    return b"%b%c%b" % (frame[:bits], frame[bits] | _PASSIVE, frame[bits + 1 :])


def close(code: int, reason: str) -> bytes:
    """Returns the frame `connection.close` with an AMQP reply code and a reason."""
    text = reason.encode()
    payload = b"%b%c%b%b" % (_CLOSE.pack(_CONNECTION, _CONNECTION_CLOSE, code), len(text), text, _NO_METHOD)
    return b"%b%b\xce" % (_HEAD.pack(_METHOD, 0, len(payload)), payload)
