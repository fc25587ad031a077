"""Sends messages with one label, and changes all of them by one call before they are due.

The bridge's limits of bulk operations are lowered, so that a few messages begin an operation of several portions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from random import Random
from typing import Any, Final

from bridge.loops import operations
from bridge.service.pools import bulk_actions
from tests.events import What
from tests.history import now_ms
from tests.torture.bulk import Operation
from tests.torture.sender import NOT_FOUND, Sender

MESSAGES: Final = 6
_AT_ONCE, _PORTION = 4, 2
_DELAY_MS: Final = (3_000, 12_000)
_BEFORE_MS: Final = 1_000  # the due moment
_REMEMBERED_MS: Final = 2_000  # so long a process takes a topic for listed, after Redis has lost its list


class Campaigns:
    """`topics`: those that it sends to. `findings`: messages that a call has not found, or has failed to change."""

    def __init__(self, sender: Sender, random: Random, topics: Sequence[str]) -> None:
        vars(bulk_actions).update(AT_ONCE=_AT_ONCE, PORTION=_PORTION)
        vars(operations).update(PORTION=_PORTION)
        self._sender = sender
        self._history = sender.history
        self._random = random
        self._topics = topics
        self.findings: list[str] = []

    async def run(self, number: int) -> None:
        """Sends the messages. Then deletes or moves them, unless a try without an answer may make one later."""
        topic, label, emptyings = self._random.choice(self._topics), f"campaign-{number}", self._history.emptyings
        steps = self._history.steps
        is_listed = now_ms() > self._history.emptied_ms + _REMEMBERED_MS
        labelled = {"labels": {"campaign": label}}
        delays_ms = [self._random.randint(*_DELAY_MS) for _ in range(self._random.randint(1, MESSAGES))]
        messages = {f"{label}-{one}": {"delay": delay_ms, **labelled} for one, delay_ms in enumerate(delays_ms)}
        first_ms = now_ms() + min(delays_ms)
        if not await self._sender.send_together(topic, messages):
            return
        await asyncio.sleep(self._random.uniform(0, max(0, first_ms - _BEFORE_MS - now_ms())) / 1_000)
        delete = self._random.random() < 0.5
        what = {} if delete else {"delay": self._random.randint(0, _DELAY_MS[1])}
        due_ms = now_ms() + what.get("delay", 0)
        for key in messages:
            self._history.note(key, What.DELETING if delete else What.MOVING, due_ms=due_ms)
        wanted = {"topic": self._random.choice((topic, "*")), "state": ["waiting"], **labelled, **what}
        before_ms = self._history.ahead_ms
        answer = await self._sender.api.call("POST", f"/v1/messages:{'delete' if delete else 'move'}", wanted)
        if not delete and max(before_ms, self._history.ahead_ms) > 0:
            for key in messages:
                self._history.note(key, What.DELETING)  # it waits for an instant of a clock that was ahead
        if answer is None or answer.status_code >= 500:
            return
        if answer.status_code == NOT_FOUND and self._history.emptyings:
            return  # an emptied Redis knows no topic
        found = answer.raise_for_status().json()
        # A message counts as sent later than the call if Redis' clock was ahead then.
        is_known = (emptyings, steps) == (self._history.emptyings, self._history.steps)
        is_known &= is_listed or wanted["topic"] == topic
        if found["matched"] < len(messages) and now_ms() < first_ms and is_known:
            self.findings.append(f"{label}: a call has matched {found['matched']} of {len(messages)} waiting messages")
        if await self._done(found, emptyings) == len(messages):
            for key in messages:
                self._history.note(key, What.DELETED if delete else What.MOVED, due_ms=due_ms)

    async def _done(self, found: dict[str, Any], emptyings: int) -> int:
        """Returns how many messages are changed, once the operation has ended, if the call began one."""
        if found["operation"] is None:
            return int(found["done"])
        operation = Operation(self._sender.api, self._history, found["operation"]["id"], emptyings)
        ended = await operation.ended()
        self.findings += operation.findings
        return 0 if ended is None else int(ended["done"])
