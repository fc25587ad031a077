"""Consumes messages, acks most, returns some, and continues whatever happens to the servers."""

from __future__ import annotations

from datetime import datetime
from random import Random
from typing import Any

from aio_pika.abc import AbstractIncomingMessage

from tests.history import History, now_ms
from tests.judging import What
from tests.torture import amqp
from tests.torture.api import Api

_LEASE_MS = 5_000
_WAIT_MS = 2_000
_NACKED, _LEFT = 0.04, 0.03
_REJECTED = 0.05
_LAST_RETURNED = 2  # deliveries of one message; lost ones may use up the other retries


class Puller:
    """Consumes over HTTP."""

    def __init__(self, api: Api, topic: str, history: History, random: Random) -> None:
        self._api = api
        self._topic = topic
        self._history = history
        self._random = random

    async def run(self) -> None:
        """Pulls for ever. A message without an ack or a nack is redelivered when its lease ends."""
        wanted = {"max": 50, "wait": _WAIT_MS, "lease": _LEASE_MS}
        while True:
            asked_ms = now_ms()
            response = await self._api.insist("POST", f"/v1/topics/{self._topic}/pull", wanted)
            response.raise_for_status()
            pulled: list[dict[str, Any]] = response.json()["messages"]
            for one in pulled:
                due_ms, attempt = _instant_ms(one["due_at"]), one["attempts"]
                self._history.note(one["id"], What.PULLED, due_ms=due_ms, attempt=attempt, asked_ms=asked_ms)
            await self._settle(pulled)

    async def _settle(self, pulled: list[dict[str, Any]]) -> None:
        receipts: dict[str, str] = {}  # ids, by their receipts
        for one in pulled:
            fate = self._random.random()
            if one["attempts"] > _LAST_RETURNED or fate > _NACKED + _LEFT:
                receipts[one["receipt"]] = one["id"]
                self._history.note(one["id"], What.ACKING)
                continue
            self._history.note(one["id"], What.RETURNED, attempt=one["attempts"])
            if fate <= _NACKED:
                shown = {"receipt": one["receipt"], "delay": self._random.randint(0, 1_000)}
                await self._api.call("POST", f"/v1/topics/{self._topic}/messages/{one['id']}/nack", shown)
        if receipts:
            response = await self._api.insist("POST", f"/v1/topics/{self._topic}/ack", {"receipts": list(receipts)})
            response.raise_for_status()
            for message_id, result in zip(receipts.values(), response.json()["results"], strict=True):
                if result["result"] == "acked":
                    self._history.note(message_id, What.ACKED)


class Subscriber:
    """Consumes over AMQP."""

    def __init__(self, url: str, topic: str, history: History, random: Random) -> None:
        self._url = url
        self._topic = topic
        self._history = history
        self._random = random

    async def run(self) -> None:
        """Consumes for ever."""
        await amqp.consume(self._url, f"ready.{self._topic}", self._received)

    async def _received(self, message: AbstractIncomingMessage) -> None:
        message_id, headers = str(message.message_id), message.headers
        due_ms, attempt = int(str(headers["x-delay-due"])), int(str(headers["x-delay-attempt"]))
        self._history.note(message_id, What.CONSUMED, due_ms=due_ms, attempt=attempt)
        if attempt <= _LAST_RETURNED and self._random.random() < _REJECTED:
            self._history.note(message_id, What.RETURNED, attempt=attempt)
            await message.reject(requeue=False)
        else:
            self._history.note(message_id, What.ACKING)
            await message.ack()


def _instant_ms(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1_000)
