"""Converts AMQP header values that JSON has no form for to text."""

from __future__ import annotations


def as_text(value: object) -> str:
    """Returns the value as text. Decodes bytes as UTF-8, with U+FFFD in place of invalid ones; uses `str` for
    others."""
    return value.decode(errors="replace") if isinstance(value, bytes | bytearray) else str(value)
