"""Reads the answers of the scripts about messages."""

from __future__ import annotations

from typing import Any, Final

from bridge.model.fast_dataclass import fast_dataclass
from bridge.model.message import Envelope, Record, State
from bridge.store import envelopes
from bridge.store.calls import Call
from bridge.store.verdicts import BY_ANSWER, Verdict

_STATES: Final = tuple(State)
_FIELDS: Final = 14  # of a record without labels, in an answer


@fast_dataclass(frozen=True, slots=True)
class Outcome:
    """The answer of a script: its verdict, the time of Redis in Unix ms, and the record after the script. The script's
    header says what `extra` is."""

    verdict: Verdict
    now_ms: int
    extra: Any
    record: Record | None

    @property
    def found(self) -> Record:
        """The record, where the verdict implies one."""
        if self.record is None:
            raise LookupError(f"the verdict {self.verdict!r} comes without a record")
        return self.record


def read(topic: str, message_id: str, answer: list[Any]) -> Outcome:
    """Reads the answer of a script about this message."""
    verdict, now_ms, extra, *fields = answer
    if not fields:
        return Outcome(BY_ANSWER[verdict], now_ms, extra, None)
    labels = fields.pop().decode() if len(fields) > _FIELDS else ""
    state, *numbers, reason = fields
    values: Any = (_STATES[state], *numbers, reason.decode(), labels)
    return Outcome(BY_ANSWER[verdict], now_ms, extra, Record(topic, message_id, *values))


def outcome_of(call: Call, answer: list[Any]) -> Outcome:
    """Reads the answer of a call that a method of `Records` built for one message."""
    return read(call.topic, call.args[1], answer)


def read_envelope(outcome: Outcome) -> Envelope | None:
    """Reads the envelope in the outcome of `look`; None if no envelope is kept."""
    return envelopes.unpack(outcome.extra) if outcome.extra else None
