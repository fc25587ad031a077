"""Follows dead letters to the ids that they have once new messages have taken theirs. Pure.

The script that begins the new message gives the letter's record the id `aside_id`. The copy in the dead-letter queue
keeps the first id. A message may be sent under the letter's new id too. Then the record moves on to the next one. So
whoever takes the copy looks under each of the letter's `names`, the first one first. A record only moves on, so none is
missed.

A letter that has no record under any of them is judged by what its names say (`Sight`). It is acknowledged only if they
prove that it was replayed or dropped. A letter that Redis no longer knows is decided about under a name that no message
has.
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
"""What the calls about a letter answer. A look answers last where the letter was settled before."""

Decide = Callable[[Copy, Taken | None], Step[LetterVerdict]]
"""Decides about a letter, under the id of the given copy, and its delivery."""

Hold = Callable[[Taken], None]
"""Takes over the delivery of a letter that nothing may be decided about yet."""


def is_settled(verdict: LetterVerdict) -> bool:
    """Whether the letter was replayed or dropped, as asked."""
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
    """What a record says about a letter."""

    LETTER = auto()
    """It is the letter's own."""
    PASSED = auto()
    """The letter was replayed or dropped, as the record is that of the same message and a later copy."""
    AHEAD = auto()
    """The message is alive. Somebody is about to name the letter, or died before that."""
    LATER = auto()
    """It is that of another message, which took the id when the letter had moved on or was no more."""
    OTHER = auto()
    """It is that of another message, which knows nothing of the letter."""
    NONE = auto()
    """There is no record."""


def sight(letter: Copy, record: Record | None) -> Sight:
    """What the record under one of the letter's names says."""
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
    """The ids that the record of the letter may have, in the order in which it takes them. No message can be sent under
    the last one, so there are about a dozen."""
    found = [letter.id]
    while may_be_sent(found[-1]):
        found.append(aside_id(found[-1], letter.nonce))
    return found


def sought(records: Records, letter: Copy, delivery: Taken, decide: Decide, hold: Hold) -> Step[LetterVerdict]:
    """Decides about a letter under the id that it has now. `letter`: as its copy says."""
    return _Search(records, letter, delivery, decide, hold, names(letter)).look(0, free=None, is_passed=False)


def followed(records: Records, letter: Copy, delivery: Taken | None, decide: Decide) -> Step[LetterVerdict]:
    """Decides about a letter under the given id, and under its next ones if new messages take this id meanwhile."""
    step = decide(letter, delivery)
    if delivery is None:
        return step
    # A letter that had a record, and has none now, was replayed or dropped.
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
        """Looks under one name. `free`: the first of the names before it without a record. `is_passed`: whether one of
        them shows that the letter was there before."""
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
        """What to do after the decision under a name: look on, if a new message has taken that name meanwhile."""

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
    """The search of the queue gives back what nobody has acknowledged."""
