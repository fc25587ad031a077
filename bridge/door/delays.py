"""Finds the header `x-delay` of a message, and decides whether it asks for a delay. Removes the header with which
RabbitMQ itself would delay the message. Pure.

The delay is a whole number, a text of digits, or a number with a fraction. RabbitMQ's delayed-message plugin takes
these forms, and cuts the fraction off.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct, error
from typing import Final

NAME: Final = b"x-delay"
HOLDING: Final = b"x-opt-delivery-time"
"""The header with which a quorum queue of RabbitMQ 4.4 holds a message until the instant in the header."""

_SIZE: Final = 3  # where the size of a frame's payload is
_PROPERTIES: Final = 7 + 14  # where the properties begin in a frame: behind class, weight, size of the body and flags
_CONTENT_TYPE, _CONTENT_ENCODING, _HEADERS = 1 << 15, 1 << 14, 1 << 13
_LONG: Final = Struct(">I")
_NUMBERS: Final = {
    ord(kind): Struct(f">{code}")
    for kind, code in {
        "b": "b", "B": "B", "s": "h", "U": "h", "u": "H", "I": "i", "i": "I", "l": "q", "L": "q", "f": "f", "d": "d",
    }.items()
}  # fmt: skip
_OTHER_SIZES: Final = {ord("t"): 1, ord("T"): 8, ord("D"): 5, ord("V"): 0}
_TEXT: Final = ord("S")
_WITH_SIZE: Final = frozenset(b"SxFA")
_DECIMAL: Final = ord("D")


def asks_for_delay(frame: bytes) -> bool:
    """Whether the header frame has an `x-delay` for which the plugin would hold the message.

    A text that is no number counts as a delay: the plugin would refuse it, and so does the ingress. A malformed frame
    counts as a frame without a delay: RabbitMQ refuses the frame.
    """
    try:
        return _asks(frame)
    except (IndexError, error):
        return False


def not_held(frame: bytes) -> bytes:
    """Returns the header frame without the header `HOLDING`. With that header the ingress could get the message late,
    and the delay would begin only then. A malformed frame stays as it is: RabbitMQ refuses it."""
    try:
        held = [(begin, end) for name, begin, _, end in _headers(frame) if name == HOLDING]
    except (IndexError, error):
        return frame
    for begin, end in reversed(held):
        frame = frame[:begin] + frame[end:]
        for place in (_SIZE, _table(frame)):
            size = _LONG.unpack_from(frame, place)[0] - (end - begin)
            frame = frame[:place] + _LONG.pack(size) + frame[place + _LONG.size :]
    return frame


def _asks(frame: bytes) -> bool:
    for name, _, value, _ in _headers(frame):
        if name == NAME:
            return _is_later(frame[value], frame, value + 1)
    return False


def _headers(frame: bytes) -> Iterator[tuple[bytes, int, int, int]]:
    """Yields each header's name and three offsets in the frame: the header's begin, its value's type, the header's end.

    Raises:
        IndexError, error: the frame ends before its headers, or a type is unknown.
    """
    place = _table(frame)
    if not place:
        return
    end = place + _LONG.size + _LONG.unpack_from(frame, place)[0]
    place += _LONG.size
    while place < end:
        begin, value = place, place + 1 + frame[place]
        place = value + 1 + _size(frame[value], frame, value + 1)
        yield frame[begin + 1 : value], begin, value, place


def _table(frame: bytes) -> int:
    """Returns the offset of the header table, which begins with its size; 0: the frame has no headers."""
    flags = frame[_PROPERTIES - 2] << 8 | frame[_PROPERTIES - 1]
    if not flags & _HEADERS:
        return 0
    place = _PROPERTIES
    for flag in (_CONTENT_TYPE, _CONTENT_ENCODING):
        if flags & flag:
            place += 1 + frame[place]
    return place


def _size(kind: int, frame: bytes, place: int) -> int:
    """Returns how many bytes a value of the type `kind` has at the offset `place`.

    Raises:
        IndexError: RabbitMQ does not know the type.
    """
    if kind in _NUMBERS:
        return _NUMBERS[kind].size
    if kind in _WITH_SIZE:
        return 4 + int(_LONG.unpack_from(frame, place)[0])
    if kind in _OTHER_SIZES:
        return _OTHER_SIZES[kind]
    raise IndexError


def _is_later(kind: int, frame: bytes, place: int) -> bool:
    if kind in _NUMBERS:
        value = _NUMBERS[kind].unpack_from(frame, place)[0]
        return bool(value >= 1 or value != value)  # noqa: PLR0124 - not a number
    if kind == _TEXT:
        text = frame[place + 4 : place + 4 + _LONG.unpack_from(frame, place)[0]]
        try:
            return int(text) > 0
        except ValueError:
            return True
    return kind == _DECIMAL
