"""Checks the headers that a message may carry: values that AMQP can hold, under names that are not reserved."""

from __future__ import annotations

import math
import re
from typing import Any, Final

from bridge.http.structs import Refused, Scalar

MAX_HEADERS = 64
MAX_BYTES = 16 * 1024  # names and values together
_NAME = re.compile(r"[!-~]{1,128}")
_RESERVED = re.compile(
    r"x-delay-.*|x-death.*|x-first-death-.*|x-last-death-.*|x-opt-.*|x-delivery-count|b?cc", re.IGNORECASE
)
_INT64 = range(-(2**63), 2**63)
_SCHEMA: Final = {
    "type": "object",
    "maxProperties": MAX_HEADERS,
    "propertyNames": {"pattern": "^[!-~]{1,128}$"},
    "additionalProperties": {"type": ["string", "number", "boolean"]},
    "description": f"AMQP headers for the consumer. Names and values take at most {MAX_BYTES} bytes together. Reserved "
    "names: x-delay-*, x-death*, x-first-death-*, x-last-death-*, x-opt-*, x-delivery-count, CC, BCC.",
}


class Headers(dict[str, Any], metaclass=Scalar):
    """The headers of a message by name: at most 64, whose names and values have at most 16 KiB together."""

    @classmethod
    def read(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            raise Refused("an object", "must be an object whose values are strings, numbers, true or false")
        if len(value) > MAX_HEADERS:
            raise Refused(MAX_HEADERS, f"has {len(value)} headers; at most {MAX_HEADERS} are allowed")
        size_bytes = 0
        for name, content in value.items():
            _check_name(name)
            if not _fits_amqp(content):
                raise Refused(
                    "string, number, true, false",
                    f"the value of {name} must be a string, a 64-bit number, true or false",
                )
            size_bytes += len(name) + len(str(content).encode())
        if size_bytes > MAX_BYTES:
            message = f"names and values have {size_bytes} bytes together; at most {MAX_BYTES} are allowed"
            raise Refused(MAX_BYTES, message)
        return value

    @classmethod
    def schema(cls) -> dict[str, Any]:
        return _SCHEMA


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise Refused(
            "1-128 printable ASCII characters",
            f"the name {name[:140]!r} must be 1-128 printable ASCII characters without spaces",
        )
    if _RESERVED.fullmatch(name):
        raise Refused("reserved", f"the name {name} is reserved for RabbitMQ and the bridge: choose another name")


def _fits_amqp(content: Any) -> bool:
    """Whether an AMQP header can hold the value unchanged."""
    if isinstance(content, int):
        return content in _INT64
    return isinstance(content, str) or (isinstance(content, float) and math.isfinite(content))
