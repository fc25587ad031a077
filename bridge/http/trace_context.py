"""Gives messages the trace context of the request that sends them: the headers `traceparent` and `tracestate`.

The bridge passes the values on as they are, even if they are no valid contexts. But it leaves out a value with more
than 512 characters, or with others than printable ASCII: the headers of a message have limits.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from bridge.model.values import Draft
from bridge.tracing.context import PARENT, STATE

_PARENT, _STATE = PARENT.encode(), STATE.encode()

# The standard asks to pass on 512 characters of `tracestate`. `traceparent` has 55 today.
_VALUE: Final = re.compile(rb"[!-~](?:[ -~]{0,510}[!-~])?")


def given(headers: Sequence[tuple[bytes, bytes]]) -> Mapping[str, str] | None:
    """Returns the trace headers for the request's messages, by name: `traceparent`, and `tracestate` if the request has
    it. Returns None if the request has no `traceparent`, or one beyond the limits. `headers`: the request's headers."""
    for name, value in headers:
        if name == _PARENT:
            return _context(value, headers)
    return None


def carried(draft: Draft, context: Mapping[str, str] | None) -> Draft:
    """Returns the message with the request's trace headers. `context`: these headers by name; None: there are none. A
    message that already has such a header is returned unchanged."""
    if context is None:
        return draft
    envelope = draft.envelope
    if any(name.lower() in (PARENT, STATE) for name in envelope.headers):
        return draft
    return replace(draft, envelope=replace(envelope, headers={**envelope.headers, **context}))


def _context(parent: bytes, headers: Sequence[tuple[bytes, bytes]]) -> Mapping[str, str] | None:
    if not _VALUE.fullmatch(parent):
        return None
    # Several lines are one list (RFC 9110, section 5.3).
    state = b",".join(value for name, value in headers if name == _STATE)
    context = {PARENT: parent.decode()}
    return {**context, STATE: state.decode()} if _VALUE.fullmatch(state) else context
