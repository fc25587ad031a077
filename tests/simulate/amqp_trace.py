"""Shows the methods of AMQP that move messages, for a trace."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, Final

from pamqp import commands, frame

_FRAME: Final = struct.Struct(">BHI")
_METHOD: Final = struct.Struct(">HH")
_METHOD_FRAME: Final = 1
_BASIC: Final = commands.Basic
_SHOWN: Final = {
    divmod(method.index, 1 << 16)
    for method in (
        _BASIC.Publish,
        _BASIC.Return,
        _BASIC.Deliver,
        _BASIC.GetOk,
        _BASIC.Ack,
        _BASIC.Nack,
        _BASIC.Reject,
        commands.Connection.Close,
        commands.Channel.Close,
    )
}
"""The numbers of the class and the method of each."""


def shown(data: bytes) -> Iterator[str]:
    """Yields a line for each such method in whole frames."""
    at = 0
    while len(data) - at > _FRAME.size and not data.startswith(b"AMQP", at):
        kind, channel, size = _FRAME.unpack_from(data, at)
        start, end = at + _FRAME.size, at + _FRAME.size + size + 1
        if kind == _METHOD_FRAME and _METHOD.unpack_from(data, start) in _SHOWN:
            method: Any = frame.unmarshal(data[at:end])[2]
            values = " ".join(f"{name}={value}" for name, value in method if value not in ("", False, None, 0))
            yield f"channel {channel} {method.name} {values}"
        at = end
