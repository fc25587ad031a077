"""Sends messages at a steady rate, and deletes some before they are due."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from random import Random

from benchmarks.loops import together
from tests.history import History, now_ms
from tests.judging import What
from tests.torture.amqp import Publisher
from tests.torture.api import Api

LONGEST_MS = 8_000
_BATCH = 10
_SINGLE, _IN_BATCHES, _BY_KEY = 0.3, 0.4, 0.3  # shares of the rate
_DELETED = 0.15
_CREATED, _OK, _NOT_FOUND = 201, 200, 404


class Producers:
    """Sends over HTTP, one and ten at a time, and over AMQP by routing key.

    A message that is not accepted is sent again with the same id.
    """

    def __init__(
        self, api: Api, publisher: Publisher, history: History, topics: Sequence[str], *, rate_per_s: float, seed: int
    ) -> None:
        self._api = api
        self._publisher = publisher
        self._history = history
        self._topics = topics
        self._rate_per_s = rate_per_s
        self._random = Random(seed)

    async def run(self, stop: asyncio.Event) -> None:
        """Sends until `stop` is set, and returns when every message is accepted."""
        rate = self._rate_per_s
        async with together() as group:
            for work, per_s in (
                (self._single, rate * _SINGLE),
                (self._batch, rate * _IN_BATCHES / _BATCH),
                (self._by_key, rate * _BY_KEY),
            ):
                group.create_task(_paced(work, per_s, stop))

    async def first(self, topic: str) -> None:
        """Sends one message without a delay, so that the topic's queues exist."""
        await self._send(topic, f"first-{topic}", {"delay": 0})

    async def _single(self, number: int) -> None:
        message_id, when = f"single-{number}", self._when(by_instant=number % 2 == 0)
        topic = self._random.choice(self._topics)
        answered = await self._send(topic, message_id, when)
        # A try without an answer may create the message after its delete.
        if answered and self._random.random() < _DELETED:
            await self._delete(topic, message_id, when)

    async def _batch(self, number: int) -> None:
        topic = self._random.choice(self._topics)
        waiting = {f"batch-{number}-{item}": self._when(by_instant=item % 2 == 0) for item in range(_BATCH)}
        while waiting:
            for message_id, when in waiting.items():
                self._note_sending(message_id, when)
            messages = [{"id": message_id, "body": message_id, **when} for message_id, when in waiting.items()]
            response = await self._api.call("POST", f"/v1/topics/{topic}/messages/batch", {"messages": messages})
            if response is None:
                for message_id in waiting:
                    self._history.note(message_id, What.UNANSWERED)
            elif response.status_code < 500:
                response.raise_for_status()
                for message_id, result in zip(tuple(waiting), response.json()["results"], strict=True):
                    if result["status"] in (_OK, _CREATED):
                        self._history.note(message_id, What.ACCEPTED)
                        del waiting[message_id]
            if waiting:
                await self._api.pause()

    async def _by_key(self, number: int) -> None:
        message_id, topic = f"key-{number}", self._random.choice(self._topics)
        delay_ms = self._random.randrange(0, LONGEST_MS, 100)
        while True:
            self._note_sending(message_id, {"delay": delay_ms})
            if await self._publisher.publish(topic, message_id, delay_ms):
                self._history.note(message_id, What.ACCEPTED)
                return
            self._history.note(message_id, What.UNANSWERED)
            await self._api.pause()

    async def _send(self, topic: str, message_id: str, when: dict[str, int]) -> bool:
        """Sends until the message is accepted. Returns whether every try got an answer."""
        answered = True
        while True:
            self._note_sending(message_id, when)
            body = {"id": message_id, "body": message_id, **when}
            response = await self._api.call("POST", f"/v1/topics/{topic}/messages", body)
            if response is None:
                answered = False
                self._history.note(message_id, What.UNANSWERED)
            elif response.status_code < 500:
                response.raise_for_status()
                self._history.note(message_id, What.ACCEPTED)
                return answered
            await self._api.pause()

    async def _delete(self, topic: str, message_id: str, when: dict[str, int]) -> None:
        """Deletes the message before it is due, or later when servers are away."""
        left_ms = _due_ms(when) - now_ms()
        await asyncio.sleep(self._random.uniform(0, left_ms) / 1_000)
        self._history.note(message_id, What.DELETING)
        response = await self._api.insist("DELETE", f"/v1/topics/{topic}/messages/{message_id}")
        answered = {_OK: What.DELETED, _NOT_FOUND: What.FORGOTTEN}
        self._history.note(message_id, answered.get(response.status_code, What.NOT_DELETED))

    def _when(self, *, by_instant: bool) -> dict[str, int]:
        delay_ms = self._random.randint(0, LONGEST_MS)
        return {"deliver_at": now_ms() + delay_ms} if by_instant else {"delay": delay_ms}

    def _note_sending(self, message_id: str, when: dict[str, int]) -> None:
        self._history.note(message_id, What.SENDING, due_ms=_due_ms(when))


def _due_ms(when: dict[str, int]) -> int:
    """The earliest moment at which a message that is sent now can be due."""
    return when["deliver_at"] if "deliver_at" in when else now_ms() + when["delay"]


async def _paced(work: Callable[[int], Awaitable[None]], per_s: float, stop: asyncio.Event) -> None:
    """Starts `work(0)`, `work(1)`, … at even distances until `stop` is set. Returns when all have ended."""
    loop = asyncio.get_running_loop()
    began_s = loop.time()

    async def awaited(number: int) -> None:
        await work(number)

    async with together() as group:
        number = 0
        while not stop.is_set():
            group.create_task(awaited(number))
            number += 1
            await asyncio.sleep(began_s + number / per_s - loop.time())
