"""Reads and writes trace contexts in the form of W3C (https://www.w3.org/TR/trace-context/). Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from bridge.model.fast_dataclass import fast_dataclass

PARENT: Final = "traceparent"
STATE: Final = "tracestate"

OF_RELEASE: Final = "x-delay-trace"
"""The name of a header of ready copies: the trace context of the copy's release, in the form of `traceparent`."""

_PARENT: Final = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?", re.DOTALL)
_SAMPLED: Final = 1


@fast_dataclass(frozen=True, slots=True)
class TraceContext:
    """The ids of a trace and of one of its spans. `sampled`: whether the sender of the context records the trace. `str`
    returns the form of the header `traceparent`."""

    trace_id: int
    span_id: int
    sampled: bool

    def __str__(self) -> str:
        return f"00-{self.trace_id:032x}-{self.span_id:016x}-{self.sampled:02x}"


def of_sender(headers: Mapping[str, Any]) -> TraceContext | None:
    """Returns the trace context in a message's header `traceparent`. None: the header is missing or invalid."""
    return read(headers.get(PARENT))


def read(value: object) -> TraceContext | None:
    """Returns the trace context that a value of the header `traceparent` holds. None: the value is invalid."""
    match = _PARENT.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        return None
    version, trace_id, span_id, flags, further = match.groups()
    # A later version than 00 may have further fields.
    if version == "ff" or (version == "00" and further) or not int(trace_id, 16) or not int(span_id, 16):
        return None
    return TraceContext(int(trace_id, 16), int(span_id, 16), bool(int(flags, 16) & _SAMPLED))
