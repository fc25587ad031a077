"""Names the numbers of AMQP 0-9-1: kinds of frames, methods, and properties. Pure."""

from __future__ import annotations

from struct import Struct
from typing import Final, Literal

PROTOCOL_HEADER: Final = b"AMQP\x00\x00\x09\x01"
"""The protocol header, which a client sends first. A server that does not speak AMQP 0-9-1 answers with another
header."""

METHOD, HEADER, BODY = 1, 2, 3
"""The kinds of frames that a channel gets."""

KINDS: Final = frozenset((METHOD, HEADER, BODY, 8))
"""All kinds of frames: those that a channel gets, and the heartbeat (8)."""

FRAME: Final = Struct(">BHI")
"""The start of a frame: its kind, the number of its channel, and the size of its payload."""

END: Final = 0xCE
"""The byte behind each payload."""

OVERHEAD: Final = FRAME.size + 1
"""The bytes of a frame around its payload."""

BASIC: Final = 60
"""The class of the methods that carry messages."""

PUBLISH, RETURN, DELIVER, GET, GET_OK, GET_EMPTY, ACK, NACK, CANCEL = (
    BASIC << 16 | method for method in (40, 50, 60, 70, 71, 72, 80, 120, 30)
)
"""Methods that are read or written without pamqp: their class in the upper two bytes, then their number in that
class."""

CHANNEL_CLOSE: Final = 20 << 16 | 40
CONNECTION_CLOSE: Final = 10 << 16 | 50
"""The methods that close a channel and the connection. Like `PUBLISH`, each number has the class in its upper two
bytes, then the method's number in that class."""

PropertyType = Literal["shortstr", "octet", "timestamp", "table"]

PROPERTIES: Final[tuple[tuple[str, int, PropertyType], ...]] = (
    ("content_type", 1 << 15, "shortstr"),
    ("content_encoding", 1 << 14, "shortstr"),
    ("headers", 1 << 13, "table"),
    ("delivery_mode", 1 << 12, "octet"),
    ("priority", 1 << 11, "octet"),
    ("correlation_id", 1 << 10, "shortstr"),
    ("reply_to", 1 << 9, "shortstr"),
    ("expiration", 1 << 8, "shortstr"),
    ("message_id", 1 << 7, "shortstr"),
    ("timestamp_ms", 1 << 6, "timestamp"),
    ("message_type", 1 << 5, "shortstr"),
    ("user_id", 1 << 4, "shortstr"),
    ("app_id", 1 << 3, "shortstr"),
    ("cluster_id", 1 << 2, "shortstr"),
)
"""The properties of a message in the order of a header frame: the field of `Properties`, the flag that says that the
property is present, and the type."""
