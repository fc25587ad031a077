"""Builds records for tests. A field that a test does not name has a plain value."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from bridge.model.message import Record, State

_PLAIN: Final = Record(
    topic="orders",
    id="o-1",
    state=State.WAITING,
    epoch=1,
    nonce=7,
    created_ms=1,
    due_ms=1,
    expires_ms=0,
    attempts=0,
    max_retry=3,
    arrives_ms=1,
    last_ms=1,
    lease_until_ms=0,
    ended_ms=0,
    forget_ms=0,
    reason="",
    labels="",
)


def record(**fields: Any) -> Record:
    return replace(_PLAIN, **fields)
