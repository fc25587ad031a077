"""Encodes a copy's properties as the bytes of a header frame, as pamqp does, in a fifth of the time. Pure."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from pamqp import encode
from pamqp.commands import Basic

from bridge.broker.client import frames
from bridge.broker.copies.copies import LONGEST_EXPIRATION_MS, OWN_PREFIX, clients_id, to_properties
from bridge.broker.copies.properties import Properties, WrittenValue
from bridge.model.durations import LATEST_INSTANT_MS, format_instant
from bridge.model.message import UNSET, Copy
from bridge.tracing.context import OF_RELEASE

_LONGEST_NAME = 32  # in characters, of up to four bytes: pamqp cuts a name to 128 bytes
_LATEST_S = LATEST_INSTANT_MS // 1_000
_SECONDS = struct.Struct(">Q")
# Flags of the properties, without and with an expiration; first without a content type, then with one.
_LASTING, _EXPIRING = (b"\x30\xc0", b"\xb0\xc0"), (b"\x31\xc0", b"\xb1\xc0")
# Bytes of names and values in the order of a table. An optional header is put in with its name.
_OURS = (
    b"\x0fx-delay-attempt%b\x0cx-delay-copy%b\x0fx-delay-created%b\x0bx-delay-due%b%b"
    b"\x11x-delay-max-retry%b%b\x0dx-delay-topic%b"
)


class CopyProperties:
    """The properties of a copy. A usual copy is encoded field by field here, any other copy by pamqp.

    A table is written in the order of its names. So the bridge's headers go between the producer's headers that sort
    before the prefix `x-delay-` and those that sort after it.
    """

    __slots__ = ("_copy", "_live_for_ms", "_parked", "_reason", "_to_target")

    def __init__(
        self, copy: Copy, *, parked: bool = False, live_for_ms: int = 0, reason: str = "", to_target: bool = False
    ) -> None:
        """Takes the arguments of `to_properties`, which explains them."""
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
        """Returns the bytes that pamqp writes for `to_properties`.

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
            return self._by_pamqp()
        before, after = b"", b""
        if envelope.headers:
            try:
                before, after = _around_ours(envelope.headers, envelope.written)
            except (TypeError, ValueError, ArithmeticError, struct.error):
                return self._by_pamqp()  # its error says which value is wrong
        due, reason = frames.whole_value(copy.due_ms), b""
        if self._reason:
            due += b"\x0ex-delay-due-at" + frames.text_value(format_instant(copy.due_ms))
            reason = b"\x0ex-delay-reason" + frames.text_value(self._reason)
        ours = _OURS % (
            frames.whole_value(copy.attempt),
            frames.text_value(f"{copy.epoch}.{copy.nonce:x}"),
            frames.whole_value(copy.created_ms),
            due,
            b"\x0fx-delay-expires" + frames.whole_value(copy.expires_ms) if copy.expires_ms else b"",
            frames.whole_value(copy.max_retry),
            reason,
            frames.text_value(copy.topic),
        )
        if copy.asked:
            ours = b"\x0dx-delay-asked" + frames.whole_value(copy.asked) + ours
        expires = 0 < self._live_for_ms <= LONGEST_EXPIRATION_MS
        return b"".join(
            (
                (_EXPIRING if expires else _LASTING)[envelope.content_type != ""],
                _encoded_type(envelope.content_type),
                frames.long(len(before) + len(ours) + len(after)),
                before,
                ours,
                after,
                b"\x02",
                frames.short_text(str(self._live_for_ms)) if expires else b"",
                frames.short_text(copy.id),
                _SECONDS.pack(seconds),
            )
        )

    def _by_pamqp(self) -> bytes:
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
    written = Basic.Properties()
    for name in Basic.Properties.flags:
        if name != "timestamp" and (value := getattr(properties, name)) is not None:
            setattr(written, name, value)
    if properties.headers and properties.written:
        raw = properties.written
        written.headers = {
            name: WrittenValue(raw[name]) if name in raw else value  # type: ignore[misc]
            for name, value in properties.headers.items()
        }
    if properties.timestamp_ms is not None:
        written.timestamp = datetime.fromtimestamp(properties.timestamp_ms // 1_000, UTC)
    return written.marshal()


def _around_ours(headers: Mapping[str, Any], written: Mapping[str, bytes]) -> tuple[bytes, bytes]:
    """Encodes a producer's headers in two parts. Returns the bytes of the headers that sort before the bridge's headers
    in a table, and the bytes of the headers that sort after them.

    `written`: as in `Envelope`.

    Raises:
        ValueError: pamqp has to encode or refuse these headers.
    """
    before: list[bytes] = []
    after: list[bytes] = []
    for name in sorted(headers):
        # The trace context of a release sorts behind all headers that we write.
        if (name.startswith(OWN_PREFIX) and name != OF_RELEASE) or len(name) > _LONGEST_NAME:
            raise ValueError(name)
        value = headers[name]
        entries = before if name < OWN_PREFIX else after
        entries.append(frames.short_text(name))
        if type(value) is str:
            entries.append(frames.text_value(value))
        else:
            entries.append(written[name] if name in written else encode.encode_table_value(value))
    return b"".join(before), b"".join(after)


@lru_cache(maxsize=256)
def _encoded_type(content_type: str) -> bytes:
    return frames.short_text(content_type) if content_type else b""
