"""Names the verdicts of scripts about messages. The `Returns:` line of a script's header says which ones it answers."""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class Verdict(StrEnum):
    """The answer of a script in one word. Several scripts may share a word: `GHOST` means the same in each of them."""

    # A copy's place in its message's life: fire, returned, lease, retry, bury, replay, keep.
    GHOST = "ghost"
    AHEAD = "ahead"
    EXPIRED = "expired"

    # The record is not what the caller took it for.
    STALE = "stale"
    NOT_LEASED = "not_leased"
    RELEASING = "releasing"
    UNKNOWN = "unknown"

    # announce
    ANNOUNCED = "announced"

    # schedule, enter, confirm, abandon, withdraw, keep, restore
    CREATED = "created"
    EXISTS = "exists"
    BUSY = "busy"
    CONFIRMED = "confirmed"
    ENTERED = "entered"
    UNANSWERED = "unanswered"
    SUPERSEDED = "superseded"
    MISSING = "missing"
    ABANDONED = "abandoned"
    WITHDRAWN = "withdrawn"
    KEPT = "kept"

    # lease, returned: the copy of a lease whose lease copy is not published
    DELIVERED = "delivered"

    # fire, returned: what to do with the copy
    RELEASE = "release"
    MADE = "made"
    HOLD = "hold"
    BESIDE = "beside"
    RETRY = "retry"
    BURY = "bury"

    # The record has changed as asked.
    LEASED = "leased"
    PUBLISHED = "published"
    ACKED = "acked"
    NACKED = "nacked"
    EXTENDED = "extended"
    CHANGED = "changed"
    REPLACED = "replaced"
    RETRIED = "retried"
    BURIED = "buried"
    REPLAYED = "replayed"
    RESTORED = "restored"
    DROPPED = "dropped"
    DELETED = "deleted"

    # delete, look, weigh
    ENDED = "ended"
    OTHER = "other"
    FOUND = "found"


BY_ANSWER: Final = {verdict.encode(): verdict for verdict in Verdict}
"""The verdicts by the bytes that Redis answers."""
