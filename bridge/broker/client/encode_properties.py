"""Encodes properties as the bytes of a header frame. Pure.

Most messages are copies. The properties of a usual copy are encoded all at once, any other properties one by one.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, assert_never

from bridge.broker.client import encode_values
from bridge.broker.client.encode_values import long, short_text, text_value, whole_value
from bridge.broker.client.protocol import PROPERTIES, PropertyType
from bridge.broker.copies.copies import LONGEST_EXPIRATION_MS, OWN_PREFIX, clients_id, to_properties
from bridge.broker.copies.properties import Properties
from bridge.model.durations import LATEST_INSTANT_MS, format_instant
from bridge.model.message import UNSET, Copy
from bridge.tracing.context import OF_RELEASE

_LATEST_S = LATEST_INSTANT_MS // 1_000
_FLAGS = struct.Struct(">H")
_SECONDS = struct.Struct(">Q")
# Flags of the properties, without and with an expiration; first without a content type, then with one.
_LASTING, _EXPIRING = (b"\x30\xc0", b"\xb0\xc0"), (b"\x31\xc0", b"\xb1\xc0")
# Bytes of names and values in the order of a table. An optional header is put in with its name.
_OURS = (
    b"\x0fx-delay-attempt%b\x0cx-delay-copy%b\x0fx-delay-created%b\x0bx-delay-due%b%b"
    b"\x11x-delay-max-retry%b%b\x0dx-delay-topic%b"
)


class CopyProperties:
    """The properties of a copy. If the copy has only the usual properties, they are encoded all at once.

    A table is written in the order of its names. So the bridge's headers go between the producer's headers that sort
    before the prefix `x-delay-` and those that sort after it.
    """

    __slots__ = ("_copy", "_live_for_ms", "_parked", "_reason", "_to_target")

    def __init__(
        self, copy: Copy, *, parked: bool = False, live_for_ms: int = 0, reason: str = "", to_target: bool = False
    ) -> None:
        """`parked`: the copy goes into the wheel. `live_for_ms`: the rest of its time to live, in ms; 0: no end.
        `reason`: why the copy is a dead letter; empty: it is none. `to_target`: the copy goes to its target, where no
        bridge reads it again."""
        self._copy = copy
        self._parked = parked
        self._live_for_ms = live_for_ms
        self._reason = reason
        self._to_target = to_target

    @property
    def message_id(self) -> str:
        copy = self._copy
        return clients_id(copy) if self._to_target else copy.id

    def encode(self) -> bytes:
        """Returns the flags and values of the copy's properties, as a header frame holds them.

        Raises:
            TypeError, ValueError, ArithmeticError, struct.error: AMQP can't hold a value of the copy.
        """
        copy, seconds = self._copy, self._copy.created_ms // 1_000
        envelope = copy.envelope
        if (
            envelope.properties
            or envelope.target is not None
            or not copy.id
            or copy.max_retry == UNSET
            or not 0 <= seconds <= _LATEST_S
        ):
            return self._one_by_one()
        before, after = b"", b""
        if envelope.headers:
            try:
                before, after = _around_ours(envelope.headers, envelope.written)
            except (TypeError, ValueError, ArithmeticError, struct.error):
                return self._one_by_one()
        due, reason = whole_value(copy.due_ms), b""
        if self._reason:
            due += b"\x0ex-delay-due-at" + text_value(format_instant(copy.due_ms))
            reason = b"\x0ex-delay-reason" + text_value(self._reason)
        ours = _OURS % (
            whole_value(copy.attempt),
            text_value(f"{copy.epoch}.{copy.nonce:x}"),
            whole_value(copy.created_ms),
            due,
            b"\x0fx-delay-expires" + whole_value(copy.expires_ms) if copy.expires_ms else b"",
            whole_value(copy.max_retry),
            reason,
            text_value(copy.topic),
        )
        if copy.asked:
            ours = b"\x0dx-delay-asked" + whole_value(copy.asked) + ours
        expires = 0 < self._live_for_ms <= LONGEST_EXPIRATION_MS
        return b"".join(
            (
                (_EXPIRING if expires else _LASTING)[envelope.content_type != ""],
                _encoded_type(envelope.content_type),
                long(len(before) + len(ours) + len(after)),
                before,
                ours,
                after,
                b"\x02",
                short_text(str(self._live_for_ms)) if expires else b"",
                short_text(copy.id),
                _SECONDS.pack(seconds),
            )
        )

    def _one_by_one(self) -> bytes:
        return encode_properties(
            to_properties(
                self._copy,
                parked=self._parked,
                live_for_ms=self._live_for_ms,
                reason=self._reason,
                to_target=self._to_target,
            )
        )


def encode_properties(properties: Properties | CopyProperties) -> bytes:
    """Returns the flags and values of properties, as a header frame holds them.

    Raises:
        TypeError, ValueError, ArithmeticError, struct.error: AMQP can't hold a value of the properties.
    """
    if isinstance(properties, CopyProperties):
        return properties.encode()
    present, parts = 0, []
    for field, flag, kind in PROPERTIES:
        value = getattr(properties, field)
        if value is not None and value != "":
            present |= flag
            parts.append(_encoded(kind, value, properties.written or {}))
    return _FLAGS.pack(present) + b"".join(parts)


def _encoded(kind: PropertyType, value: Any, written: Mapping[str, bytes]) -> bytes:
    match kind:
        case "shortstr":
            return short_text(value)
        case "octet":
            return bytes([value])
        case "timestamp":
            if value > LATEST_INSTANT_MS:
                raise ValueError(f"timestamp: {value} ms is after the year 9999")
            return _SECONDS.pack(value // 1_000)
        case "table":
            return encode_values.table(value, written)
    assert_never(kind)


def _around_ours(headers: Mapping[str, Any], written: Mapping[str, bytes]) -> tuple[bytes, bytes]:
    """Encodes a producer's headers in two parts. Returns the bytes of the headers that sort before the bridge's headers
    in a table, and the bytes of the headers that sort after them.

    `written`: by name, the AMQP bytes of values, type included, whose Python values do not show the AMQP type.

    Raises:
        ValueError: a producer's header has a name of the bridge.
        TypeError, ArithmeticError, struct.error: AMQP can't hold a value.
    """
    before: list[bytes] = []
    after: list[bytes] = []
    for name in sorted(headers):
        # The trace context of a release sorts behind all headers that we write.
        if name.startswith(OWN_PREFIX) and name != OF_RELEASE:
            raise ValueError(name)
        value = headers[name]
        entries = before if name < OWN_PREFIX else after
        entries.append(short_text(name))
        entries.append(written[name] if name in written else encode_values.value(value))
    return b"".join(before), b"".join(after)


@lru_cache(maxsize=256)
def _encoded_type(content_type: str) -> bytes:
    return short_text(content_type) if content_type else b""
