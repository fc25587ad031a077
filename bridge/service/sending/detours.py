"""Sends messages for a new ready queue through the checkpoint, whose queue is older.

The bridge relies on a queue's confirms only when the queue is old enough to survive a kill of RabbitMQ. So a sender to
a new ready queue would wait for over a second. The checkpoint's queue is old enough. The checkpoint publishes the
message into the new queue at once. It acknowledges the copy in its queue once the bridge relies on the new queue's
confirms.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Collection, Sequence
from time import monotonic
from typing import TypeGuard, assert_never

from bridge.model.errors import StoreUnavailable, UnnamedVerdict
from bridge.model.message import State
from bridge.service.context import Context
from bridge.service.protocol.arrivals import FIRST_PAUSE_S, LONGEST_PAUSE_S, WITHIN_S, Arrivals
from bridge.service.protocol.steps import Result
from bridge.store.messages.outcomes import Outcome
from bridge.store.messages.verdicts import ConfirmVerdict, EnterVerdict, WithdrawVerdict

Ended = ConfirmVerdict | EnterVerdict | WithdrawVerdict
"""The verdicts of calls that end a send."""

_HELD_S = 2.0  # longer than a checkpoint holds a copy of a detour
_SHARE = 8


class Detours:
    """Decides which sends go through the checkpoint, and waits for their messages. In each pool, a process has one
    `Detours` for requests, and one for each session of the ingress or a checkpoint.

    A checkpoint holds a limited number of deliveries. If all of them waited for new queues, the checkpoint would hold
    up every topic. So each `Detours` sends at most an eighth of that number through the checkpoint within two seconds.
    """

    def __init__(self, context: Context) -> None:
        self._store = context.store
        self._records = context.records
        self._declared = context.broker.declared
        self._arrivals = Arrivals(context)
        self._most = context.settings.checkpoint_prefetch // _SHARE
        self._until_s: deque[float] = deque()

    def take(self, topic: str) -> bool:
        """Returns whether a message for the topic's ready queue goes through the checkpoint. True if that queue is new
        and the limit of the class is not reached. Then the message counts against this limit."""
        if not self._declared.unsettled(topic):
            return False
        now_s = monotonic()
        while self._until_s and self._until_s[0] <= now_s:
            self._until_s.popleft()
        if len(self._until_s) >= self._most:
            return False
        self._until_s.append(now_s + _HELD_S)
        return True

    async def until_ready(self, results: list[Result[Ended]], detours: Collection[int]) -> None:
        """Waits for at most a second until the confirmed messages are in their ready queues, so that the caller's next
        pull finds them. Replaces the messages' outcomes in `results` by the latest ones.

        `detours`: the indexes of the messages that went through the checkpoint.
        """
        until_s, pause_s = monotonic() + WITHIN_S, FIRST_PAUSE_S
        arrived: set[int] = set()
        while monotonic() < until_s:
            left = {at: result.found for at in detours if at not in arrived and _is_on_its_way(result := results[at])}
            if not left:
                return
            await asyncio.sleep(pause_s)
            released = {at: record for at, record in left.items() if record.state is State.READY}
            pause_s = FIRST_PAUSE_S if released else min(2 * pause_s, LONGEST_PAUSE_S)
            try:
                await self._look_again([at for at in left if at not in released], results)
                noted = await self._arrivals.noted(list(released.values()))
            except (StoreUnavailable, UnnamedVerdict):
                return  # the messages are accepted
            arrived.update(at for at, is_noted in zip(released, noted, strict=True) if is_noted)

    async def _look_again(self, waiting: Sequence[int], results: list[Result[Ended]]) -> None:
        """Asks Redis about messages again, and puts the new outcomes into `results`. `waiting`: the indexes of these
        messages in `results`.

        Raises:
            StoreUnavailable: Redis did not answer.
            UnnamedVerdict: this version does not know a script's answer.
        """
        # A second confirm changes nothing. Unlike `look`, its answer has no body.
        calls = [self._records.confirm(result.found) for at in waiting if _is_on_its_way(result := results[at])]
        for at, outcome in zip(waiting, await self._store.run(calls), strict=True):
            match outcome.verdict:
                case ConfirmVerdict.CONFIRMED:
                    results[at] = outcome
                case ConfirmVerdict.UNANSWERED | ConfirmVerdict.SUPERSEDED | ConfirmVerdict.MISSING:
                    pass  # the message has ended, and the record is of another message
                case _:
                    assert_never(outcome.verdict)


def _is_on_its_way(result: Result[Ended]) -> TypeGuard[Outcome[ConfirmVerdict]]:
    return (
        isinstance(result, Outcome)
        and result.verdict is ConfirmVerdict.CONFIRMED
        and result.found.state in (State.WAITING, State.READY)
    )
