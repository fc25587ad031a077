"""Leads messages to a new ready queue through the checkpoint, whose queue is older.

A confirm by a new queue does not count yet, and its sender would wait for over a second. The checkpoint's queue
confirms such a message at once. A checkpoint publishes the message into the new queue at once, and acknowledges its own
copy once the new queue has settled.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Collection
from time import monotonic
from typing import TypeGuard

from bridge.model.errors import StoreUnavailable
from bridge.model.message import Record, State
from bridge.service.context import Context
from bridge.service.succession import Result
from bridge.store.calls import Call
from bridge.store.outcomes import Outcome, outcome_of
from bridge.store.records import Confirmation
from bridge.store.verdicts import Verdict

_HELD_S = 2.0  # longer than a checkpoint holds such a copy
_SHARE = 8
_RELEASED_WITHIN_S = 1.0
_FIRST_PAUSE_S = 0.005
_LONGEST_PAUSE_S = 0.05


class Detours:
    """The detours of one process.

    A checkpoint reads a limited number of messages ahead. If all of them waited for new queues, it would hold up every
    topic. So a process leads at most an eighth of that number through the checkpoint within two seconds.
    """

    def __init__(self, context: Context) -> None:
        self._store = context.store
        self._records = context.records
        self._declared = context.broker.declared
        self._most = context.settings.checkpoint_prefetch // _SHARE
        self._until_s: deque[float] = deque()

    def take(self, topic: str) -> bool:
        """Returns whether a message for the topic's ready queue goes through the checkpoint, and counts it then."""
        if not self._declared.unsettled(topic):
            return False
        now_s = monotonic()
        while self._until_s and self._until_s[0] <= now_s:
            self._until_s.popleft()
        if len(self._until_s) >= self._most:
            return False
        self._until_s.append(now_s + _HELD_S)
        return True

    async def until_released(self, results: list[Result], detours: Collection[int]) -> None:
        """Waits until a checkpoint releases the confirmed messages, but at most a second, and puts the outcomes of then
        into the results. So a caller soon finds its message in the ready queue.

        `detours`: the indexes of the messages that went through the checkpoint.
        """
        until_s, pause_s = monotonic() + _RELEASED_WITHIN_S, _FIRST_PAUSE_S
        while monotonic() < until_s:
            calls = {at: self._confirmed(result.found) for at in detours if _waits(result := results[at])}
            if not calls:
                return
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
            try:
                answers = await self._store.run(list(calls.values()))
            except StoreUnavailable:
                return  # the messages are accepted
            for (at, call), answer in zip(calls.items(), answers, strict=True):
                outcome = outcome_of(call, answer)
                if outcome.verdict is Verdict.CONFIRMED:  # else the message has ended, and its record is another's
                    results[at] = outcome

    def _confirmed(self, record: Record) -> Call:
        """Confirms the send once more, which changes nothing. It carries no body, as a look's answer would."""
        return self._records.confirm(
            record.topic,
            Confirmation(
                id=record.id,
                epoch=record.epoch,
                nonce=record.nonce,
                created_ms=record.created_ms,
                ready=0,
                direct=0,
                answer_by_ms=0,
                envelope=b"",
            ),
        )


def _waits(result: Result) -> TypeGuard[Outcome]:
    return isinstance(result, Outcome) and result.verdict is Verdict.CONFIRMED and result.found.state is State.WAITING
