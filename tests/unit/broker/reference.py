"""Encodes and decodes properties by pamqp, made as tolerant as the bridge has to be."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from pamqp import encode
from pamqp.commands import Basic
from pamqp.header import ContentHeader

from bridge.broker.copies.properties import UNREADABLE, Properties

DEEPEST = 32
FAULTS = (ValueError, TypeError, LookupError, ArithmeticError, RecursionError, OSError, struct.error)


@contextmanager
def _tolerant() -> Iterator[None]:
    """Within the context pamqp writes bytes as texts, and floats in 64 bits."""
    plain = encode.encode_table_value

    def value(one: Any) -> bytes:
        match one:
            case bytes():
                return b"S" + struct.pack(">I", len(one)) + one
            case float():
                return b"d" + struct.pack(">d", one)
            case _:
                return plain(one)

    encode.encode_table_value = value  # type: ignore[assignment]
    try:
        yield
    finally:
        encode.encode_table_value = plain


def encoded(properties: Basic.Properties, body_size: int = 7) -> bytes:
    """Returns a header frame's payload."""
    with _tolerant():
        return ContentHeader(properties=properties, body_size=body_size).marshal()


def encoded_own(properties: Properties) -> bytes:
    """Returns flags and values of the bridge's properties. Raises what pamqp raises."""
    given = {name: getattr(properties, name) for name in Basic.Properties.flags if name != "timestamp"}
    if properties.timestamp_ms is not None:
        given["timestamp"] = datetime.fromtimestamp(properties.timestamp_ms // 1_000, UTC)
    with _tolerant():
        return Basic.Properties(**{name: value for name, value in given.items() if value is not None}).marshal()


def decoded(content: bytes) -> Basic.Properties:
    """Decodes a header frame's payload. Properties that can't be read are absent, and a header says why."""
    header = ContentHeader()
    try:
        header.unmarshal(content)
        reason = f"tables nested deeper than {DEEPEST}" if _too_deep(header.properties.headers, DEEPEST) else ""
    except FAULTS as error:
        reason = f"{type(error).__name__}: {error}"[:200]
    return Basic.Properties(headers={UNREADABLE: reason}) if reason else header.properties


def _too_deep(value: object, levels: int) -> bool:
    if not isinstance(value, dict | list):
        return False
    members = value.values() if isinstance(value, dict) else value
    return levels == 0 or any(_too_deep(member, levels - 1) for member in members)
