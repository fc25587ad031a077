"""Names the verdicts of the scripts about messages, one enum a script.

The `Returns:` line of a script's header says what each of its verdicts means. The verdicts of `ack` are `AckVerdict` in
`model/values.py`, as callers of the service get them. `look` and `timeline` share `LookVerdict`.
"""

from __future__ import annotations

from enum import StrEnum


class ScheduleVerdict(StrEnum):
    CREATED = "created"
    EXISTS = "exists"
    BUSY = "busy"


class ConfirmVerdict(StrEnum):
    CONFIRMED = "confirmed"
    UNANSWERED = "unanswered"
    SUPERSEDED = "superseded"
    MISSING = "missing"


class EnterVerdict(StrEnum):
    ENTERED = "entered"
    UNANSWERED = "unanswered"


class KeepVerdict(StrEnum):
    KEPT = "kept"
    GHOST = "ghost"
    UNKNOWN = "unknown"


class AbandonVerdict(StrEnum):
    ABANDONED = "abandoned"
    KEPT = "kept"


class WithdrawVerdict(StrEnum):
    WITHDRAWN = "withdrawn"
    KEPT = "kept"


class FireVerdict(StrEnum):
    RELEASE = "release"
    MADE = "made"
    HOLD = "hold"
    BESIDE = "beside"
    AHEAD = "ahead"
    BURY = "bury"
    EXPIRED = "expired"
    GHOST = "ghost"
    ANOTHER = "another"


class ReturnedVerdict(StrEnum):
    RETRY = "retry"
    BURY = "bury"
    DELIVERED = "delivered"
    EXPIRED = "expired"
    AHEAD = "ahead"
    GHOST = "ghost"
    ANOTHER = "another"


class LeaseVerdict(StrEnum):
    LEASED = "leased"
    HOLD = "hold"
    DELIVERED = "delivered"
    AHEAD = "ahead"
    EXPIRED = "expired"
    GHOST = "ghost"
    ANOTHER = "another"


class LeaseCopyVerdict(StrEnum):
    PUBLISHED = "published"
    GHOST = "ghost"
    MISSING = "missing"


class AnnounceVerdict(StrEnum):
    ANNOUNCED = "announced"
    UNKNOWN = "unknown"


class NackVerdict(StrEnum):
    NACKED = "nacked"
    STALE = "stale"
    UNKNOWN = "unknown"


class ExtendVerdict(StrEnum):
    EXTENDED = "extended"
    STALE = "stale"
    UNKNOWN = "unknown"


class DeleteVerdict(StrEnum):
    DELETED = "deleted"
    ENDED = "ended"
    OTHER = "other"
    STALE = "stale"
    RELEASING = "releasing"
    UNKNOWN = "unknown"


class ChangeVerdict(StrEnum):
    CHANGED = "changed"
    STALE = "stale"
    UNKNOWN = "unknown"


class ReplaceVerdict(StrEnum):
    REPLACED = "replaced"
    STALE = "stale"
    RELEASING = "releasing"
    UNKNOWN = "unknown"


class RetryVerdict(StrEnum):
    RETRIED = "retried"
    GHOST = "ghost"


class BuryVerdict(StrEnum):
    BURIED = "buried"
    GHOST = "ghost"


class ReplayVerdict(StrEnum):
    REPLAYED = "replayed"
    GHOST = "ghost"
    ANOTHER = "another"


class DropVerdict(StrEnum):
    DROPPED = "dropped"
    STALE = "stale"
    UNKNOWN = "unknown"


class RestoreVerdict(StrEnum):
    RESTORED = "restored"
    KEPT = "kept"


class LookVerdict(StrEnum):
    FOUND = "found"
    UNKNOWN = "unknown"


class WeighVerdict(StrEnum):
    FOUND = "found"
    INSTANT = "instant"
    UNKNOWN = "unknown"
