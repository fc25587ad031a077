"""Sends messages with random delays at a steady rate, and deletes some before they are due."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from random import Random
from time import monotonic

import httpx2

from tests.events import What
from tests.fault.api import PATIENCE_S, Api, now_ms
from tests.history import History

_PAUSE_S, _LONGEST_PAUSE_S = 0.5, 3.0  # clients that retry sooner would be a load themselves


class Load:
    """Every second message has a delay, the others an instant. Every seventh is deleted."""

    def __init__(
        self,
        api: Api,
        history: History,
        topics: Sequence[str],
        *,
        rate_per_s: float,
        seed: int,
        delay_ms: tuple[int, int] = (300, 4_000),
    ) -> None:
        """`delay_ms`: the shortest and the longest delay."""
        self._api = api
        self._history = history
        self._topics = topics
        self._rate_per_s = rate_per_s
        self._random = Random(seed)
        self._delay_ms = delay_ms

    async def run(self, stop: asyncio.Event) -> None:
        """Sends until `stop` is set, and returns when every send is accepted."""
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        async with asyncio.TaskGroup() as sends:
            number = 0
            while not stop.is_set():
                sends.create_task(self._one(number, self._random.randint(*self._delay_ms)))
                number += 1
                await asyncio.sleep(began_s + number / self._rate_per_s - loop.time())

    async def marks(self) -> None:
        """Sends a last message to each topic. When it arrives, all earlier messages have arrived."""
        for number, topic in enumerate(self._topics):
            message_id = f"mark-{number}"
            await self._send(topic, message_id, {"delay": 1_000}, now_ms() + 1_000)

    async def _one(self, number: int, delay_ms: int) -> None:
        topic, message_id = self._topics[number % len(self._topics)], f"m-{number}"
        due_ms = now_ms() + delay_ms
        when = {"delay": delay_ms} if number % 2 else {"deliver_at": due_ms}
        await self._send(topic, message_id, when, due_ms)
        if number % 7 == 0:
            await self._delete(topic, message_id)

    async def _send(self, topic: str, message_id: str, when: dict[str, int], due_ms: int) -> None:
        give_up_at = monotonic() + PATIENCE_S
        tries = 0
        while True:
            tries += 1
            self._history.note(message_id, What.SENDING, due_ms=due_ms)
            try:
                response = await self._api.send(topic, message_id, **when)
            except httpx2.TransportError as error:
                self._history.note(message_id, What.UNANSWERED)
                last: object = repr(error)
            else:
                if response.status_code < 500:
                    break
                last = response.text
            if monotonic() > give_up_at:
                raise TimeoutError(f"{message_id} is refused for {PATIENCE_S:.0f} s: {last}")
            await asyncio.sleep(min(_LONGEST_PAUSE_S, _PAUSE_S * 2 ** (tries - 1)) * self._random.uniform(0.8, 1.2))
        assert response.status_code in (200, 201), response.text
        self._history.note(message_id, What.ACCEPTED)

    async def _delete(self, topic: str, message_id: str) -> None:
        self._history.note(message_id, What.DELETING)
        response = await self._api.insist("DELETE", f"/v1/topics/{topic}/messages/{message_id}")
        if response.status_code == 200:
            self._history.note(message_id, What.DELETED)
        else:
            self._history.note(message_id, What.FORGOTTEN if response.status_code == 404 else What.NOT_DELETED)
