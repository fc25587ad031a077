"""Finds the present ids of dead letters whose ids new messages have taken. Pure.

The script that makes the new message's record gives the dead letter's record a new id (`aside_id`). The copy in the
dead-letter queue keeps the first id. If a client then sends a message under this new id, the dead letter's record gets
the next id. So a process that takes the copy looks under each of the dead letter's `possible_ids`, in order. A record
never gets an earlier one of these ids again, so the process can't miss it.

If none of these ids leads to the dead letter's own record, the other records under these ids decide (`Sight`). The copy
is acknowledged only if they prove that the dead letter was replayed or dropped. If they prove nothing, Redis has lost
the dead letter's record. The dead letter is then settled under the first id that no record has.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import assert_never

from bridge.model.errors import Unavailable
from bridge.model.message import Copy, Record, aside_id, may_be_sent
from bridge.service.protocol.deliveries import Acked, Held, Requeued, Settlement, Work
from bridge.service.protocol.steps import Result, Step, Update, named
from bridge.store.messages.records import Records
from bridge.store.messages.verdicts import DropVerdict, LookVerdict, ReplayVerdict

DeadLetterVerdict = DropVerdict | ReplayVerdict | LookVerdict
"""The verdicts of calls about a dead letter. It is a `LookVerdict` if the last call was a look-up: then the dead letter
was settled before, or can't be settled yet."""

Decide = Callable[[Copy], Step[DeadLetterVerdict]]
"""A function that returns the step to settle a dead letter. Its argument: the copy, with the dead letter's present
id."""


def is_settled(verdict: DeadLetterVerdict) -> bool:
    """Whether the verdict says that the call has replayed or dropped the dead letter. False if the call dropped a copy
    whose record Redis has lost."""
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
    """The relation of a record in Redis to a dead letter. The record has one of the ids that the dead letter may have
    (`possible_ids`)."""

    LETTER = auto()
    """The record is the dead letter's own."""
    PASSED = auto()
    """The dead letter was replayed or dropped: the record is of its message, and names a later copy or has ended."""
    AHEAD = auto()
    """The record names an earlier copy of the message. A process is about to name the dead letter's copy, or died
    before it named the copy."""
    LATER = auto()
    """The record is of another message. That message took the id after the dead letter's record had got its next id, or
    after the dead letter was settled."""
    OTHER = auto()
    """The record is of another message, and says nothing about the dead letter."""
    NONE = auto()
    """There is no record."""


def sight(letter: Copy, record: Record | None) -> Sight:
    """Returns what the record under one of the dead letter's `possible_ids` says about the dead letter. `record` None:
    there is no record."""
    if record is None:
        return Sight.NONE
    is_named = (record.epoch, record.nonce) == (letter.epoch, letter.nonce)
    if is_named:
        return Sight.LETTER if record.is_dead_letter else Sight.PASSED
    if record.created_ms != letter.created_ms:
        return Sight.LATER if record.epoch > letter.epoch > 0 else Sight.OTHER
    is_older = record.epoch < letter.epoch and (record.is_dead_letter or not record.state.ended)
    return Sight.AHEAD if is_older else Sight.PASSED


def possible_ids(letter: Copy) -> list[str]:
    """Returns the ids that the record of a dead letter may have, in the order in which the record takes them. There are
    about a dozen ids. No client can send a message under the last id, so the record keeps that id."""
    found = [letter.id]
    while may_be_sent(found[-1]):
        found.append(aside_id(found[-1], letter.nonce))
    return found


def search_then_settle(records: Records, letter: Copy, decide: Decide) -> Work[DeadLetterVerdict]:
    """Returns the work that finds a dead letter's record and then settles the dead letter. A new message may have taken
    the dead letter's id; the record then has another id.

    `letter`: the copy in the dead-letter queue, which keeps the first id. `decide`: returns the step that settles the
    dead letter under the id that the record has. If the records do not show yet whether it may be settled, the delivery
    stays unacknowledged (`Held`).
    """
    return _Look(_Search(records, letter, decide, possible_ids(letter)), 0)


def settle_then_search(records: Records, letter: Copy, decide: Decide) -> Work[DeadLetterVerdict]:
    """Returns the work that settles a dead letter under the id of `letter`. If a new message takes this id meanwhile,
    the work looks under the next ids. If the dead letter's record is not there, the dead letter was replayed or
    dropped, and the work acknowledges the copy."""
    return _Search(records, letter, decide, possible_ids(letter)).decided(0)


@dataclass(frozen=True, slots=True)
class _Search:
    records: Records
    letter: Copy
    decide: Decide
    ids: list[str]

    def has_next(self, at: int) -> bool:
        return at + 1 < len(self.ids)

    def decided(self, at: int) -> _Decided:
        """Returns the work that settles the dead letter whose record is expected under `ids[at]`."""
        return _Decided(self, at, self.decide(replace(self.letter, id=self.ids[at])))


@dataclass(frozen=True, slots=True)
class _Look:
    """Looks for the dead letter's record under `ids[at]`. `free`: the index
    of the first earlier id without a record; None: all earlier ids have one. `is_passed`: a record under an earlier id
    shows that the dead letter had moved on or was settled."""

    search: _Search
    at: int
    free: int | None = None
    is_passed: bool = False

    @property
    def step(self) -> Step[DeadLetterVerdict]:
        return Update(self.search.records.look(self.search.letter.topic, self.search.ids[self.at]))

    def after(self, result: Result[DeadLetterVerdict]) -> Settlement[DeadLetterVerdict] | Work[DeadLetterVerdict]:
        if isinstance(result, Unavailable):
            return Requeued(result)
        free, is_passed = self.free, self.is_passed
        found = sight(self.search.letter, named(result).record)
        match found:
            case Sight.LETTER:
                return self.search.decided(self.at)
            case Sight.PASSED:
                return Acked(result)
            case Sight.AHEAD:
                return Held(result)
            case Sight.LATER:
                is_passed = True
            case Sight.OTHER:
                pass
            case Sight.NONE:
                free = self.at if free is None else free
            case _:
                assert_never(found)
        if self.search.has_next(self.at):
            return _Look(self.search, self.at + 1, free, is_passed)
        if is_passed:
            return Acked(result)
        return Held(result) if free is None else self.search.decided(free)


@dataclass(frozen=True, slots=True)
class _Decided:
    """One try to settle a dead letter whose record is expected under `ids[at]`. If a new message has taken this id
    meanwhile, `after` returns the search under the next id. After the last id, the copy is acknowledged."""

    search: _Search
    at: int
    step: Step[DeadLetterVerdict]

    def after(self, result: Result[DeadLetterVerdict]) -> Settlement[DeadLetterVerdict] | Work[DeadLetterVerdict]:
        if isinstance(result, Unavailable):
            return Requeued(result)
        verdict = named(result).verdict
        match verdict:
            case ReplayVerdict.GHOST | DropVerdict.STALE if self.search.has_next(self.at):
                return _Look(self.search, self.at + 1, is_passed=True)
            case ReplayVerdict.GHOST | DropVerdict.STALE:
                return Acked(result)
            case ReplayVerdict.REPLAYED | ReplayVerdict.ANOTHER | DropVerdict.DROPPED | DropVerdict.UNKNOWN:
                return Acked(result)
            case LookVerdict.FOUND | LookVerdict.UNKNOWN:
                return Acked(result)
            case _:
                assert_never(verdict)
