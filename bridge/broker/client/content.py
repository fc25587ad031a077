"""Collects the header and the body of a message from their frames."""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Final

from bridge.broker.client.protocol import HEADER

_SIZE: Final = Struct(">Q")
_SIZE_AT: Final = 4  # in a header frame's payload


class Content:
    """Collects the frames that follow the method of one message. `done`: called with the payload of the header frame,
    and the body."""

    __slots__ = ("_body", "_done", "_header", "_missing_bytes")

    def __init__(self, done: Callable[[bytes, bytes], None]) -> None:
        self._done = done
        self._header = b""
        self._body: list[bytes] = []
        self._missing_bytes = 0  # of the body

    def add(self, kind: int, payload: bytes) -> bool:
        """Adds a frame: the message's header frame, or one of its body frames. `kind`: the frame's kind, such as
        `protocol.HEADER`. Returns whether the message is complete."""
        if kind == HEADER:
            self._header = payload
            (self._missing_bytes,) = _SIZE.unpack_from(payload, _SIZE_AT)
        else:
            self._body.append(payload)
            self._missing_bytes -= len(payload)
        return self._missing_bytes <= 0

    def end(self) -> None:
        """Passes the complete message to `done`."""
        self._done(self._header, self._body[0] if len(self._body) == 1 else b"".join(self._body))
