"""Builds records, drafts and claims for tests. A field that a test does not name has a plain value."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any, Final

from bridge.model.message import Envelope, Record, State
from bridge.model.values import Draft
from bridge.store.messages.records import Claim

_EMPTY: Final[Any] = {field.name: 0 if field.type == "int" else "" for field in fields(Record)}
_PLAIN: Final = replace(
    Record(**_EMPTY),
    topic="orders",
    id="o-1",
    state=State.WAITING,
    epoch=1,
    nonce=7,
    created_ms=1,
    due_ms=1,
    max_retry=3,
    arrives_ms=1,
    last_ms=1,
)


def record(**fields: Any) -> Record:
    return replace(_PLAIN, **fields)


def draft(**fields: Any) -> Draft:
    return Draft(**{"topic": "orders", "envelope": Envelope(), **fields})


def claim(**fields: Any) -> Claim:
    return Claim(**{"id": "o-1", "ttl_ms": -1, "max_retry": 3, "nonce": 9, "by": "-", **fields})
