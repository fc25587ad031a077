"""A copy's properties as the bytes of a header: what pamqp writes of `to_properties`, in a fifth of its time. Pure."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from pamqp import encode

from bridge.broker.client import frames
from bridge.broker.copies.copies import LONGEST_EXPIRATION_MS, OWN_PREFIX, to_properties
from bridge.model.durations import LATEST_INSTANT_MS
from bridge.model.message import Copy

_LONGEST_NAME = 32  # in characters, of up to four bytes: pamqp cuts a name to 128 bytes
_LATEST_S = LATEST_INSTANT_MS // 1_000
_SECONDS = struct.Struct(">Q")
_LASTING, _EXPIRING = b"\xb0\xc0", b"\xb1\xc0"  # which properties there are, without and with an expiration
# Bytes of names and values in the order of a table. What a copy may lack is put in with its name.
_OURS = b"\x0fx-delay-attempt%b\x0cx-delay-copy%b\x0bx-delay-due%b%b\x11x-delay-max-retry%b%b\x0dx-delay-topic%b"


class CopyProperties:
    """What `to_properties` gives, for publishing: written field by field where there is nothing special about a copy.

    The names of a table stand in their order, so ours stand between those before and those behind our prefix.
    """

    __slots__ = ("_copy", "_live_for_ms", "_parked", "_reason")

    def __init__(self, copy: Copy, *, parked: bool = False, live_for_ms: int = 0, reason: str = "") -> None:
        self._copy = copy
        self._parked = parked
        self._live_for_ms = live_for_ms
        self._reason = reason

    @property
    def message_id(self) -> str:
        return self._copy.id

    def marshal(self) -> bytes:
        """As pamqp writes them.

        Raises:
            TypeError, ValueError, ArithmeticError, struct.error: they can't be written.
        """
        copy, seconds = self._copy, self._copy.created_ms // 1_000
        envelope = copy.envelope
        if envelope.properties or not (copy.id and envelope.content_type) or not 0 <= seconds <= _LATEST_S:
            return self._by_pamqp()
        before, behind = b"", b""
        if envelope.headers:
            try:
                before, behind = _around_ours(envelope.headers)
            except (TypeError, ValueError, ArithmeticError, struct.error):
                return self._by_pamqp()  # which says what is wrong
        ours = _OURS % (
            frames.whole_value(copy.attempt),
            frames.text_value(f"{copy.epoch}.{copy.nonce:x}"),
            frames.whole_value(copy.due_ms),
            b"\x0fx-delay-expires" + frames.whole_value(copy.expires_ms) if copy.expires_ms else b"",
            frames.whole_value(copy.max_retry),
            b"\x0ex-delay-reason" + frames.text_value(self._reason) if self._reason else b"",
            frames.text_value(copy.topic),
        )
        if copy.asked:
            ours = b"\x0dx-delay-asked" + frames.whole_value(copy.asked) + ours
        expires = 0 < self._live_for_ms <= LONGEST_EXPIRATION_MS
        return b"".join(
            (
                _EXPIRING if expires else _LASTING,
                _type_of(envelope.content_type),
                frames.long(len(before) + len(ours) + len(behind)),
                before,
                ours,
                behind,
                b"\x02",
                frames.short_text(str(self._live_for_ms)) if expires else b"",
                frames.short_text(copy.id),
                _SECONDS.pack(seconds),
            )
        )

    def _by_pamqp(self) -> bytes:
        properties = to_properties(self._copy, parked=self._parked, live_for_ms=self._live_for_ms, reason=self._reason)
        return properties.marshal()


def _around_ours(headers: Mapping[str, Any]) -> tuple[bytes, bytes]:
    """A producer's headers, those that come before ours in a table and those behind.

    Raises:
        ValueError: not to be written so.
    """
    before: list[bytes] = []
    behind: list[bytes] = []
    for name in sorted(headers):
        if name.startswith(OWN_PREFIX) or len(name) > _LONGEST_NAME:
            raise ValueError(name)
        value = headers[name]
        entries = before if name < OWN_PREFIX else behind
        entries.append(frames.short_text(name))
        entries.append(frames.text_value(value) if type(value) is str else encode.encode_table_value(value))
    return b"".join(before), b"".join(behind)


@lru_cache(maxsize=256)
def _type_of(content_type: str) -> bytes:
    return frames.short_text(content_type)
