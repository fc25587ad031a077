"""Follows dead letters to the ids that they have once new messages have taken theirs. Pure.

The script that begins the new message gives the letter's record the id `aside_id`. The copy in the dead-letter queue
keeps the first id, so whoever takes it looks in Redis under which id its record is. A new message may take the id after
that look. Then the decision finds another record, and the step looks again before it acknowledges the letter.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from bridge.broker.ready.taken import Taken
from bridge.model.message import Copy, aside_id
from bridge.service.succession import Step
from bridge.store.outcomes import Outcome
from bridge.store.records import Records
from bridge.store.verdicts import Verdict

Decide = Callable[[Copy, Taken | None], Step]
"""Decides about a letter, under the id of the given copy, and its delivery."""


def sought(records: Records, letter: Copy, delivery: Taken, decide: Decide) -> Step:
    """Decides about a letter under the id that it has now. `letter`: as its copy says."""
    return _aside(records, letter, delivery, decide, otherwise=lambda: followed(records, letter, delivery, decide))


def followed(records: Records, letter: Copy, delivery: Taken | None, decide: Decide) -> Step:
    """Decides about a letter under the given id, and once more if a new message takes this id meanwhile."""

    def again(outcome: Outcome) -> Step | None:
        is_passed = outcome.verdict in (Verdict.GHOST, Verdict.STALE)
        return _aside(records, letter, delivery, decide, otherwise=lambda: None) if is_passed else None

    return replace(decide(letter, delivery), then=again)


def _aside(
    records: Records, letter: Copy, delivery: Taken | None, decide: Decide, *, otherwise: Callable[[], Step | None]
) -> Step:
    aside = replace(letter, id=aside_id(letter.id, letter.nonce))

    def decided(looked: Outcome) -> Step | None:
        is_aside = looked.record is not None and looked.record.is_letter
        return decide(aside, delivery) if is_aside else otherwise()

    return Step(name=records.look(aside.topic, aside.id), delivery=delivery, then=decided)
