"""Lets a test's client send header values of any AMQP type."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from pamqp import encode


@dataclass(frozen=True, slots=True)
class WrittenValue:
    """A value as AMQP encodes it: a byte for the type, and the value."""

    raw: bytes


def allow_written_values(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes aio-pika send each `WrittenValue` as it is."""
    encoded = encode.encode_table_value

    def written(value: Any) -> bytes:
        return value.raw if isinstance(value, WrittenValue) else encoded(value)

    monkeypatch.setattr(encode, "encode_table_value", written)
