"""Checks the headers that a message may carry: values that AMQP can hold, under names that are not reserved."""

from __future__ import annotations

import math
import re
from typing import Annotated, Any

from pydantic import PlainValidator, WithJsonSchema

from bridge.http.exact_json import WideInt
from bridge.http.v1.contract.scalars import refused

MAX_HEADERS = 64
MAX_BYTES = 16 * 1024  # names and values together
_NAME = re.compile(r"[!-~]{1,128}")
_RESERVED = re.compile(
    r"x-delay-.*|x-death.*|x-first-death-.*|x-last-death-.*|x-opt-.*|x-delivery-count|b?cc", re.IGNORECASE
)
_INT64 = range(-(2**63), 2**63)
_SCHEMA = {
    "type": "object",
    "maxProperties": MAX_HEADERS,
    "propertyNames": {"pattern": "^[!-~]{1,128}$"},
    "additionalProperties": {"type": ["string", "number", "boolean"]},
    "description": f"AMQP headers for the consumer. Names and values take at most {MAX_BYTES} bytes together. Reserved "
    "names: x-delay-*, x-death*, x-first-death-*, x-last-death-*, x-opt-*, x-delivery-count, CC, BCC.",
}


def _headers(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise refused("an object", "must be an object whose values are strings, numbers, true or false")
    if len(value) > MAX_HEADERS:
        raise refused(MAX_HEADERS, f"has {len(value)} headers; at most {MAX_HEADERS} are allowed")
    size_bytes = 0
    for name, content in value.items():
        _check_name(name)
        if not _fits_amqp(content):
            raise refused(
                "string, number, true, false", f"the value of {name} must be a string, a 64-bit number, true or false"
            )
        size_bytes += len(name) + len(str(content).encode("utf-8", "surrogatepass"))
    if size_bytes > MAX_BYTES:
        raise refused(MAX_BYTES, f"names and values have {size_bytes} bytes together; at most {MAX_BYTES} are allowed")
    return {name: _plain(content) for name, content in value.items()}


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise refused(
            "1-128 printable ASCII characters",
            f"the name {name[:140]!r} must be 1-128 printable ASCII characters without spaces",
        )
    if _RESERVED.fullmatch(name):
        raise refused("reserved", f"the name {name} is reserved for RabbitMQ and the bridge: choose another name")


def _plain(content: Any) -> Any:
    """Returns a number as a plain `int` or `float`, which AMQP encodes in 64 bits; any other value unchanged."""
    if isinstance(content, float):
        return float(content)
    return int(content) if type(content) is WideInt else content


def _fits_amqp(content: Any) -> bool:
    """Whether an AMQP header can hold the value unchanged."""
    if isinstance(content, int):
        return int(content) in _INT64
    return isinstance(content, str) or (isinstance(content, float) and math.isfinite(content))


Headers = Annotated[dict[str, Any], PlainValidator(_headers), WithJsonSchema(_SCHEMA)]
