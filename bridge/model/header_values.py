"""Converts AMQP header values to text if JSON has no form for them."""

from __future__ import annotations


def as_text(value: object) -> str:
    """Returns the value of a header as text. Decodes bytes as UTF-8, with U+FFFD in place of invalid bytes. Converts
    any other value with `str`."""
    return value.decode(errors="replace") if isinstance(value, bytes | bytearray) else str(value)
