"""Finds the present ids of dead letters whose ids new messages have taken. Pure.

The script that begins the new message gives the dead letter's record a new id (`aside_id`). The copy in the dead-letter
queue keeps the first id. If a client sends a message under that new id too, the record moves to the next one. So a
process that takes the copy looks under each of the dead letter's `names`, in order. A record moves only forwards, so
the process can't miss it.

If there is no record under any of these names, the records of other messages there decide (`Sight`). The copy is
acknowledged only if they prove that the dead letter was replayed or dropped. If they prove nothing, Redis has lost the
record, and the dead letter is settled under a name that no message has.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import assert_never

from bridge.broker.ready.taken import Taken
from bridge.model.message import Copy, Record, aside_id, may_be_sent
from bridge.service.protocol.succession import Step
from bridge.store.messages.outcomes import Outcome
from bridge.store.messages.records import Records
from bridge.store.messages.verdicts import DropVerdict, LookVerdict, ReplayVerdict

LetterVerdict = DropVerdict | ReplayVerdict | LookVerdict
"""The verdicts of calls about a dead letter. A `LookVerdict` is the last answer if the dead letter was settled
before."""

Decide = Callable[[Copy, Taken | None], Step[LetterVerdict]]
"""Builds the step that settles a dead letter, given its copy with the present id, and its delivery, if there is one."""

Hold = Callable[[Taken], None]
"""Takes over the delivery of a dead letter that must not be settled yet."""


def is_settled(verdict: LetterVerdict) -> bool:
    """Whether the verdict says that the dead letter was replayed or dropped."""
    match verdict:
        case DropVerdict.DROPPED | ReplayVerdict.REPLAYED:
            return True
        case ReplayVerdict.ANOTHER:
            return True  # the checkpoint releases its successor under an id of its own
        case DropVerdict.STALE | DropVerdict.UNKNOWN | ReplayVerdict.GHOST | LookVerdict.FOUND | LookVerdict.UNKNOWN:
            return False
        case _:
            assert_never(verdict)


class Sight(Enum):
    """What the record under one of a dead letter's names says about the dead letter."""

    LETTER = auto()
    """The record is the dead letter's own."""
    PASSED = auto()
    """The dead letter was replayed or dropped: the record is of its message, and names a later copy or has ended."""
    AHEAD = auto()
    """The record names an earlier copy of the message. A process is about to name the dead letter, or died before it
    did."""
    LATER = auto()
    """The record is of another message, which took the id after the dead letter had moved on or was settled."""
    OTHER = auto()
    """The record is of another message, and says nothing about the dead letter."""
    NONE = auto()
    """There is no record."""


def sight(letter: Copy, record: Record | None) -> Sight:
    """Returns what the record under one of the dead letter's names says about it. `record` None: there is no record."""
    if record is None:
        return Sight.NONE
    is_named = (record.epoch, record.nonce) == (letter.epoch, letter.nonce)
    if is_named:
        return Sight.LETTER if record.is_letter else Sight.PASSED
    if record.created_ms != letter.created_ms:
        return Sight.LATER if record.epoch > letter.epoch > 0 else Sight.OTHER
    is_older = record.epoch < letter.epoch and (record.is_letter or not record.state.ended)
    return Sight.AHEAD if is_older else Sight.PASSED


def names(letter: Copy) -> list[str]:
    """Returns the ids that the record of a dead letter may have, in the order in which it takes them. There are about a
    dozen: no message can be sent under the last one, so it is never taken."""
    found = [letter.id]
    while may_be_sent(found[-1]):
        found.append(aside_id(found[-1], letter.nonce))
    return found


def sought(records: Records, letter: Copy, delivery: Taken, decide: Decide, hold: Hold) -> Step[LetterVerdict]:
    """Returns the step that finds the dead letter's present id and then settles it. `letter`: its copy, with the id
    there."""
    return _Search(records, letter, delivery, decide, hold, names(letter)).look(0, free=None, is_passed=False)


def followed(records: Records, letter: Copy, delivery: Taken | None, decide: Decide) -> Step[LetterVerdict]:
    """Returns the step that settles a dead letter under the given id. If a new message takes this id meanwhile, the
    step looks under the next ids."""
    step = decide(letter, delivery)
    if delivery is None:
        return step
    # A dead letter that had a record, and has none now, was replayed or dropped.
    search = _Search(records, letter, delivery, decide, _keep, names(letter))
    return replace(step, then=search.after(0))


@dataclass(frozen=True, slots=True)
class _Search:
    records: Records
    letter: Copy
    delivery: Taken
    decide: Decide
    hold: Hold
    names: list[str]

    def look(self, at: int, *, free: int | None, is_passed: bool) -> Step[LetterVerdict]:
        """Returns the step that looks under one name. `at`: its index. `free`: the index of the first earlier name
        without a record; None: all have one. `is_passed`: a record under an earlier name shows that the dead letter had
        moved on or was settled."""
        held = False

        def seen(outcome: Outcome[LetterVerdict]) -> Step[LetterVerdict] | None:
            nonlocal held
            found, first, passed = sight(self.letter, outcome.record), free, is_passed
            match found:
                case Sight.LETTER:
                    return self._decided(at)
                case Sight.PASSED:
                    return None
                case Sight.AHEAD:
                    held = True
                    return None
                case Sight.LATER:
                    passed = True
                case Sight.OTHER:
                    pass
                case Sight.NONE:
                    first = at if first is None else first
                case _:
                    assert_never(found)
            if at + 1 < len(self.names):
                return self.look(at + 1, free=first, is_passed=passed)
            if passed:
                return None
            if first is not None:
                return self._decided(first)
            held = True
            return None

        def keep(_: Outcome[LetterVerdict]) -> bool:
            if held:
                self.hold(self.delivery)
            return held

        look = self.records.look(self.letter.topic, self.names[at])
        return Step(name=look, delivery=self.delivery, then=seen, keep=keep)

    def after(self, at: int) -> Callable[[Outcome[LetterVerdict]], Step[LetterVerdict] | None]:
        """Returns the `then` of a step that settles the dead letter under a name. It looks under the next name if a new
        message has taken this one meanwhile."""

        def again(outcome: Outcome[LetterVerdict]) -> Step[LetterVerdict] | None:
            match outcome.verdict:
                case ReplayVerdict.GHOST | DropVerdict.STALE if at + 1 < len(self.names):
                    return self.look(at + 1, free=None, is_passed=True)
                case ReplayVerdict.GHOST | DropVerdict.STALE:
                    return None
                case ReplayVerdict.REPLAYED | ReplayVerdict.ANOTHER | DropVerdict.DROPPED | DropVerdict.UNKNOWN:
                    return None
                case LookVerdict.FOUND | LookVerdict.UNKNOWN:
                    return None
                case _:
                    assert_never(outcome.verdict)

        return again

    def _decided(self, at: int) -> Step[LetterVerdict]:
        step = self.decide(replace(self.letter, id=self.names[at]), self.delivery)
        return replace(step, then=self.after(at))


def _keep(_: Taken) -> None:
    """Does nothing: the search of the queue requeues deliveries that were not acknowledged."""
