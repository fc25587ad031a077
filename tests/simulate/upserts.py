"""Sends one id several times, and says each time what becomes of a live message of the id."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Final

from tests.events import What
from tests.history import History, now_ms
from tests.torture.api import Api
from tests.torture.sender import CONFLICT, CREATED, OK

TURNS: Final = 3
_MOST_WAIT_MS: Final = 10_000
_DELAY_MS: Final = (500, 6_000)
_PAUSE_S: Final = 3.0
_RULES: Final = ("keep", "replace", "extend", "error")


class Upserts:
    """The sends of one id. Each has a key of its own. `keys`: of all sends so far."""

    def __init__(self, api: Api, history: History, random: Random, topic: str, message_id: str) -> None:
        self._api = api
        self._history = history
        self._random = random
        self._path = f"/v1/topics/{topic}/messages"
        self._id = message_id
        self._first_ms = now_ms()
        self._sent_ahead_ms = history.ahead_ms  # at most, in a send so far
        self.keys: list[str] = []

    async def run(self) -> None:
        """Sends three times at most: not again if nobody knows what a send has done."""
        for turn in range(TURNS):
            if not await self._send(self._random.choice(_RULES), f"{self._id}#{turn}"):
                return
            await asyncio.sleep(self._random.uniform(0, _PAUSE_S))

    async def _send(self, rule: str, key: str) -> bool:
        """Returns whether the send was answered."""
        delay_ms = self._random.randint(*_DELAY_MS)
        due_ms = now_ms() + delay_ms
        message = {"id": self._id, "body": key, "delay": delay_ms, "if_exists": rule}
        if rule == "extend":
            message["max_wait"] = _MOST_WAIT_MS
            # After a step of the clock the most wait may be over at once.
            due_ms = now_ms() if self._history.steps else min(due_ms, self._first_ms + _MOST_WAIT_MS)
        if rule in ("replace", "extend"):
            for earlier in self.keys:
                self._history.note(earlier, What.DELETING)  # it may have ended, or come: nothing is owed
        self.keys.append(key)
        self._history.note(key, What.SENDING, due_ms=due_ms)
        before_ms = self._history.ahead_ms
        answer = await self._api.call("POST", self._path, message)
        after_ms = self._history.ahead_ms
        is_late = rule == "extend" and self._sent_ahead_ms > min(before_ms, after_ms)
        self._sent_ahead_ms = max(self._sent_ahead_ms, before_ms, after_ms)
        if answer is None or answer.status_code >= 500:
            self._history.note(key, What.UNANSWERED)
            return False
        if answer.status_code == CONFLICT and rule != "keep":
            return True  # a live message exists, or its release has begun
        assert answer.status_code in (OK, CREATED), answer.text
        if answer.json().get("body") == key:  # else the answer shows the live message, which stays as it is
            self._history.note(key, What.ACCEPTED)
            if is_late:
                # The message waits for a moment of a clock that was ahead. The new copy waits for it in the wheel.
                self._history.note(key, What.DELETING)
        return True
