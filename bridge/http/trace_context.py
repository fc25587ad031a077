"""Gives messages the trace context of the request that sends them: its headers `traceparent` and `tracestate`.

The bridge hands the values on as they are, so an invalid one too. Only their length and characters are limited: a
longer one is left out, as the headers of a message have a limit.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from bridge.model.values import Draft
from bridge.tracing.context import PARENT, STATE

_PARENT, _STATE = PARENT.encode(), STATE.encode()

# Of `tracestate` the standard wants 512 characters to be handed on. `traceparent` has 55 today.
_VALUE: Final = re.compile(rb"[!-~](?:[ -~]{0,510}[!-~])?")


def given(headers: Sequence[tuple[bytes, bytes]]) -> Mapping[str, str] | None:
    """Returns the headers that the request's messages get. None: it has no `traceparent`."""
    for name, value in headers:
        if name == _PARENT:
            return _context(value, headers)
    return None


def carried(draft: Draft, context: Mapping[str, str] | None) -> Draft:
    """Returns the message with the context that the request gives. A message with one of its headers keeps its own."""
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
