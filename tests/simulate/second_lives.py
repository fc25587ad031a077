"""Sends ids again whose waiting messages Redis has just forgotten, so that two messages have one id."""

from __future__ import annotations

import asyncio
from typing import Final

from tests.events import What
from tests.history import History, now_ms
from tests.torture.api import Api
from tests.torture.sender import CREATED

_APART_S: Final = 1.5
_DELAY_MS: Final = 8_000
_AGAIN_MS: Final = 500  # a second message comes before the first
_LOOK_S: Final = 0.1
_MARGIN_MS: Final = 1_500  # the first message must not be due before the second send


class SecondLives:
    """Keeps a few messages waiting, each with an id of its own. RabbitMQ has them, so each has to come, and so has a
    second message that is sent after Redis has lost its keys."""

    def __init__(self, api: Api, history: History, topic: str) -> None:
        self._api = api
        self._history = history
        self._path = f"/v1/topics/{topic}/messages"
        self._waiting: dict[str, int] = {}  # ids by due moment

    async def run(self, seconds: float) -> None:
        """Returns after so many seconds."""
        async with asyncio.TaskGroup() as group:
            again = group.create_task(self._send_again())
            for number in range(int(seconds / _APART_S)):
                message_id, due_ms = f"life-{number}", now_ms() + _DELAY_MS
                if await self._send(message_id, f"{message_id}#first", _DELAY_MS):
                    self._waiting[message_id] = due_ms
                await asyncio.sleep(_APART_S)
            again.cancel()

    async def _send_again(self) -> None:
        seen = self._history.emptyings
        while True:
            await asyncio.sleep(_LOOK_S)
            if self._history.emptyings == seen:
                continue
            seen = self._history.emptyings
            waiting, self._waiting = self._waiting, {}
            for message_id, due_ms in waiting.items():
                if due_ms > now_ms() + _MARGIN_MS:
                    await self._send(message_id, f"{message_id}#second", _AGAIN_MS)

    async def _send(self, message_id: str, key: str, delay_ms: int) -> bool:
        """Sends once. Returns whether the message was accepted."""
        self._history.note(key, What.SENDING, due_ms=now_ms() + delay_ms)
        answer = await self._api.call("POST", self._path, {"id": message_id, "body": key, "delay": delay_ms})
        accepted = answer is not None and answer.status_code == CREATED
        self._history.note(key, What.ACCEPTED if accepted else What.UNANSWERED)
        return accepted
