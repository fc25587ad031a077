"""Follows what the broker sends, so that the door knows where a frame of its own may come. Pure."""

from __future__ import annotations

from struct import Struct
from typing import Final

_HEAD_BYTES: Final = 7
_SIZE: Final = Struct(">I")


class Answers:
    """What the broker sends to one client. All of it passes unchanged."""

    def __init__(self) -> None:
        self._missing = 0  # bytes of a frame whose beginning has passed
        self._head = b""  # the beginning of a frame that is shorter than its head
        self.any = False

    @property
    def is_whole(self) -> bool:
        """Whether frames have passed, and no frame in part."""
        return self.any and not self._missing and not self._head

    def follow(self, data: bytes) -> None:
        """Counts the bytes of frames."""
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
