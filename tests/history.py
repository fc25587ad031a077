"""Keeps the events of a run: load and consumers note them, and tests/judging.py judges them."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress
from time import time

from tests.events import DELIVERIES, Event, What
from tests.judging import Verdict, judge
from tests.waiting import pause

_LOOK_S = 0.5  # a verdict on a long run takes tens of milliseconds of CPU


class History:
    """Keeps the events of a run, in the order they were seen in. `max_retry` is the setting of the bridges,
    `forgetful` whether their Redis may forget its latest changes."""

    def __init__(self, max_retry: int, *, forgetful: bool = False) -> None:
        self.max_retry = max_retry
        self.forgetful = forgetful
        self.events: list[Event] = []
        self.last_due_ms = 0
        self.delivery_count = 0
        self.accepted_count = 0
        self.acked: set[str] = set()  # the messages with an answered ack
        self.steps = 0  # of the clock of Redis
        self.ahead_ms = 0  # how far the clock of Redis is ahead of ours
        self.emptyings = 0  # of Redis: odd while one goes on
        self.emptied_ms = 0  # when the latest one began or ended

    def note(
        self,
        message_id: str,
        what: What,
        *,
        due_ms: int = 0,
        attempt: int = 0,
        asked_ms: int = 0,
        created_ms: int = 0,
    ) -> None:
        """Adds an event that was seen just now."""
        self.events.append(Event(now_ms(), message_id, what, due_ms, attempt, asked_ms, created_ms))
        self.delivery_count += what in DELIVERIES
        self.accepted_count += what is What.ACCEPTED
        if what is What.ACKED:
            self.acked.add(message_id)
        if what in (What.SENDING, What.MOVING):
            self.last_due_ms = max(self.last_due_ms, due_ms)

    def clock(self, offset_ms: int) -> None:
        """Notes that the clock of Redis is that far ahead of ours from now on."""
        self.steps += 1
        self.ahead_ms = offset_ms
        self.note("", What.CLOCK, due_ms=offset_ms)

    def emptying(self) -> None:
        """Notes that Redis begins, or has ended, to lose all its keys."""
        self.emptyings += 1
        self.emptied_ms = now_ms()
        self.note("", What.EMPTIED)

    def of(self, message_id: str) -> list[Event]:
        """The events of one message."""
        return [event for event in self.events if event.message_id == message_id]

    def counts(self, what: What) -> Counter[str]:
        """How many events of this kind each message has."""
        return Counter(event.message_id for event in self.events if event.what is what)

    def verdict(self) -> Verdict:
        """Judges the events so far."""
        return judge(tuple(self.events), now_ms=now_ms(), max_retry=self.max_retry, forgetful=self.forgetful)

    async def more_accepted(self, count: int, *, within_s: float) -> None:
        """Waits until `count` more sends are accepted. Raises TimeoutError after `within_s`."""
        until = self.accepted_count + count
        async with asyncio.timeout(within_s):
            while self.accepted_count < until:
                await pause()

    async def nothing_lost(self, *, within_s: float) -> None:
        """Waits until no accepted message is missing, `within_s` at most. The verdict names the missing ones."""
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                while self.verdict().lost:
                    await pause(_LOOK_S)


def now_ms() -> int:
    """The wall clock. Redis on the same machine has the same."""
    return int(time() * 1_000)
