"""Defines the result of a bulk action, and the operation that carries out an action on many messages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A message that could not be changed."""

    topic: str
    id: str
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkOperation:
    """A bulk action on many messages, which the bridge carries out by itself. `look_at_operation` returns how far it
    is. `reason`: why the operation failed; None: it has not failed."""

    id: str
    action: Literal["delete", "move", "run-now", "replay"]
    filter: Mapping[str, Any]
    state: Literal["running", "done", "cancelled", "failed"]
    matched: int
    done: int
    failed: int
    created_at: datetime
    ended_at: datetime | None
    token_id: str
    failures: tuple[Failure, ...]
    reason: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkResult:
    """The result of a bulk action. `operation`: the operation that changes the messages, if they are too many for one
    call; otherwise None."""

    matched: int
    done: int
    failed: int
    dry_run: bool
    operation: BulkOperation | None
    failures: tuple[Failure, ...]
