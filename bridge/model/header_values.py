"""Writes header values of AMQP clients that JSON has no form for."""

from __future__ import annotations


def as_text(value: object) -> str:
    """The value as text: bytes as UTF-8, with U+FFFD for what is not UTF-8; anything else as `str` writes it."""
    return value.decode(errors="replace") if isinstance(value, bytes | bytearray) else str(value)
