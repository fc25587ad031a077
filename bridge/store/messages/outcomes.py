"""Defines the answers of the scripts about messages, and reads them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from enum import StrEnum
from typing import Any, Final, Generic, TypeVar

from bridge.model.fast_dataclass import fast_dataclass
from bridge.model.message import Envelope, Record, State
from bridge.store.calls import Call
from bridge.store.messages import envelopes
from bridge.store.messages.verdicts import LookVerdict
from bridge.store.replies import Reply

_STATES: Final = tuple(State)
_TEXTS_AT: Final = 13  # in a record of an answer: the state is first, then numbers, then texts
_EMPTY: Final = ("",) * (len(fields(Record)) - len(("topic", "id")) - _TEXTS_AT)

V = TypeVar("V", bound=StrEnum)
V_co = TypeVar("V_co", bound=StrEnum, covariant=True)


@fast_dataclass(frozen=True, slots=True)
class Outcome(Generic[V_co]):
    """The answer of a script: its verdict, the time of Redis in Unix ms, and the record after the script. `record`
    None: Redis has none, or the verdict comes without it. The script's header says what `extra` counts; 0: nothing."""

    verdict: V_co
    now_ms: int
    extra: int
    record: Record | None

    @property
    def found(self) -> Record:
        """The record, for verdicts that always come with one.

        Raises:
            LookupError: there is no record.
        """
        if self.record is None:
            raise LookupError(f"the verdict {self.verdict!r} comes without a record")
        return self.record


@fast_dataclass(frozen=True, slots=True)
class Looked(Outcome[LookVerdict]):
    """The answer of the script `look`. `packed`: the kept envelope, which `envelopes.unpack` reads; empty: no envelope
    is kept."""

    packed: bytes


@fast_dataclass(frozen=True, slots=True)
class TimelineAnswer(Outcome[LookVerdict]):
    """The answer of the script `timeline`. `values`: the raw values of the message's transitions, which `timelines.py`
    reads."""

    values: list[Reply]


class NoRule(Exception):
    """This version does not know the verdict that a script returned, so the bridge can't know what to do."""

    def __init__(self, call: Call[object], verdict: bytes) -> None:
        self.script_name, self.topic, self.message_id = call.script.name, call.topic, call.message_id
        self.verdict = verdict.decode(errors="replace")
        super().__init__(f"{self.script_name} answered {self.verdict!r}")


def reader(verdicts: type[V]) -> Callable[[Call[Any], Any], Outcome[V]]:
    """Makes the function that reads a script's answers. `verdicts`: the verdicts that the script has."""
    by_answer = {verdict.value.encode(): verdict for verdict in verdicts}

    def read(call: Call[Any], answer: Any) -> Outcome[V]:
        verdict, now_ms, extra, *values = answer
        try:
            named = by_answer[verdict]
        except KeyError:
            raise NoRule(call, verdict) from None
        if not values:
            return Outcome(named, now_ms, extra, None)
        values[0] = _STATES[values[0]]
        values[_TEXTS_AT:] = [text.decode() for text in values[_TEXTS_AT:]]
        values += _EMPTY[len(values) - _TEXTS_AT :]  # an answer leaves out the last ones if they are empty
        return Outcome(named, now_ms, extra, Record(call.topic, call.args[1], *values))

    return read


_look_outcome: Final = reader(LookVerdict)


def read_looked(call: Call[Any], answer: Any) -> Looked:
    """Reads the answer of the script `look`."""
    outcome = _look_outcome(call, answer)
    return Looked(outcome.verdict, outcome.now_ms, 0, outcome.record, answer[2] or b"")


def read_timeline_answer(call: Call[Any], answer: Any) -> TimelineAnswer:
    """Reads the answer of the script `timeline`."""
    outcome = _look_outcome(call, answer)
    return TimelineAnswer(outcome.verdict, outcome.now_ms, 0, outcome.record, answer[2] or [])


def read_envelope(looked: Looked) -> Envelope | None:
    """Reads the envelope in an answer of the script `look`; None if no envelope is kept."""
    return envelopes.unpack(looked.packed) if looked.packed else None
