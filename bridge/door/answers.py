"""Follows the frames that the broker sends, so that the door knows where it may insert its own frame. Pure."""

from __future__ import annotations

from struct import Struct
from typing import Final

_HEAD_BYTES: Final = 7
_SIZE: Final = Struct(">I")


class Answers:
    """Follows the bytes that the broker sends to one client. The door passes them on unchanged. `any`: whether the
    broker has sent any bytes."""

    def __init__(self) -> None:
        self._missing = 0  # bytes of a frame whose beginning has passed
        self._head = b""  # the beginning of a frame that is shorter than its head
        self.any = False

    @property
    def is_whole(self) -> bool:
        """Whether the bytes so far end at the end of a frame. False before the first byte."""
        return self.any and not self._missing and not self._head

    def follow(self, data: bytes) -> None:
        """Follows the next bytes that the broker sends, to know where the frames in them end."""
        self.any = True
        size = len(data)
        place = self._missing
        if self._head:
            data = self._head + data
            self._head = b""
            size = len(data)
        while size - place >= _HEAD_BYTES:
            place += _HEAD_BYTES + 1 + _SIZE.unpack_from(data, place + 3)[0]
        if place > size:
            self._missing = place - size
        else:
            self._missing = 0
            self._head = data[place:]
