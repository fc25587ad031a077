"""The headers a message may carry, as a pydantic type: what an AMQP header holds, under no name that means more."""

from __future__ import annotations

import math
import re
from typing import Annotated, Any

from pydantic import PlainValidator, WithJsonSchema

from bridge.http.exact_json import WideInt
from bridge.http.v1.scalars import refused

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
    "description": f"At most {MAX_BYTES} bytes together. Reserved: x-delay-*, x-death*, x-first-death-*, "
    "x-last-death-*, x-opt-*, x-delivery-count, CC, BCC.",
}


def _headers(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise refused("an object", "must be an object of strings, numbers, true and false")
    if len(value) > MAX_HEADERS:
        raise refused(MAX_HEADERS, f"must be at most {MAX_HEADERS}, and are {len(value)}")
    size_bytes = 0
    for name, content in value.items():
        _check_name(name)
        if not _carried(content):
            raise refused("string, number, true, false", f"{name} must be a string, a 64-bit number, true or false")
        size_bytes += len(name) + len(str(content).encode("utf-8", "surrogatepass"))
    if size_bytes > MAX_BYTES:
        raise refused(MAX_BYTES, f"must be at most {MAX_BYTES} bytes together, and are {size_bytes}")
    return {name: _plain(content) for name, content in value.items()}


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise refused("1-128 printable ASCII characters", f"no header can be named {name[:140]!r}")
    if _RESERVED.fullmatch(name):
        raise refused("reserved", f"the name {name} is reserved: the broker or the bridge writes it, or acts on it")


def _plain(content: Any) -> Any:
    """A number as the 64 bits an AMQP header has for it."""
    if isinstance(content, float):
        return float(content)
    return int(content) if type(content) is WideInt else content


def _carried(content: Any) -> bool:
    """Whether an AMQP header can hold the value as it is."""
    if isinstance(content, int):
        return int(content) in _INT64
    return isinstance(content, str) or (isinstance(content, float) and math.isfinite(content))


Headers = Annotated[dict[str, Any], PlainValidator(_headers), WithJsonSchema(_SCHEMA)]
