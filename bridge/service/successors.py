"""Successor copies: what takes the place of a message's live copy, published before its record names it. Pure."""

from __future__ import annotations

from bridge.broker.publications import Publication, Route
from bridge.model.message import Copy, CopyKind, Envelope, Record

RETRY_KIND = CopyKind.RETRY
MOVE_KIND = CopyKind.MOVE


def successor(record: Record, envelope: Envelope, *, nonce: int, attempt: int, due_ms: int) -> Copy:
    """The next copy of a message: one epoch later."""
    return Copy(
        topic=record.topic,
        id=record.id,
        epoch=record.epoch + 1,
        nonce=nonce,
        attempt=attempt,
        max_retry=record.max_retry,
        due_ms=due_ms,
        expires_ms=record.expires_ms,
        created_ms=record.created_ms,
        envelope=envelope,
    )


def at_once(copy: Copy, now_ms: float) -> Publication:
    """Straight into the ready queue."""
    live_for_ms = max(1, int(copy.expires_ms - now_ms)) if copy.expires_ms else 0
    return Publication(copy=copy, route=Route.READY, live_for_ms=live_for_ms)


def later(copy: Copy, now_ms: float, kind: CopyKind) -> Publication:
    """Through the wheel, until the copy is due."""
    return Publication(copy=copy, route=Route.WHEEL, left_ms=max(0.0, copy.due_ms - now_ms), kind=kind)


def dead(copy: Copy, reason: str) -> Publication:
    """Into the topic's dead-letter queue."""
    return Publication(copy=copy, route=Route.DEAD, reason=reason)
