"""Consumes messages, acks most, returns some, and continues whatever happens to the servers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

import orjson
from aio_pika.abc import AbstractIncomingMessage

from tests.events import What
from tests.history import History, now_ms
from tests.torture import amqp
from tests.torture.api import Api
from tests.torture.policies import Policies
from tests.torture.sender import CONFLICT, NOT_FOUND, instant_ms

_LEASE_MS = 5_000
WAIT_MS = 2_000
_NACKED, _LEFT = 0.04, 0.03
_REJECTED = 0.05
LAST_RETURNED = 2  # deliveries of one message; lost ones may use up the other retries

Pulled = dict[str, Any]
"""A delivery, as a pull answers it."""


class Puller:
    """Consumes over HTTP. `along`: each pull takes the acks of the messages before it along."""

    def __init__(
        self, api: Api, topic: str, history: History, policies: Policies, random: Random, *, along: bool = False
    ) -> None:
        self._along = along
        self._acks: list[Pulled] = []
        self._api = api
        self._policies = policies
        self._topic = topic
        self._history = history
        self._random = random

    async def run(self) -> None:
        """Pulls for ever. A message without an ack or a nack is redelivered when its lease ends."""
        while True:
            asked_ms, pause, wanted = now_ms(), self._policies.pause_of(self._topic), self._wanted()
            acks = {"ack": [one["receipt"] for one in self._acks]} if self._acks else {}
            response = await self._api.call("POST", f"/v1/topics/{self._topic}/pull", {**wanted, **acks})
            if response is None or response.status_code >= 500:
                await self._api.pause()  # the next pull repeats the acks
                continue
            answer = response.raise_for_status().json()
            self._note_acks(self._acks, answer.get("acked", ()))
            self._acks.clear()
            pulled: list[Pulled] = answer["messages"]
            for one in pulled:
                self._history.note(
                    one["body"],
                    What.PULLED,
                    due_ms=instant_ms(one["due_at"]),
                    attempt=one["attempts"],
                    asked_ms=asked_ms,
                    created_ms=instant_ms(one["created_at"]),
                )
                if pause is not None and pause == self._policies.pause_of(self._topic):
                    self._history.note(one["body"], What.IN_PAUSE)
            await self._settle(pulled, wanted["lease"])
            if not wanted["wait"]:
                await self._api.pause()

    def _wanted(self) -> dict[str, int]:
        """What a pull asks for."""
        return {"max": 50, "wait": WAIT_MS, "lease": _LEASE_MS}

    async def _settle(self, pulled: list[Pulled], lease_ms: int) -> None:
        """Acks most messages, and returns some."""
        acked: list[Pulled] = []
        for one in pulled:
            fate = self._random.random()
            if one["attempts"] > LAST_RETURNED or fate > _NACKED + _LEFT:
                acked.append(one)
                continue
            self._history.note(one["body"], What.RETURNED, attempt=one["attempts"])
            if fate <= _NACKED:
                await self._nack(one)
        await self._ack(acked)

    async def _ack(self, pulled: list[Pulled]) -> None:
        """Acks messages together, until that is answered, or leaves that to the next pull."""
        if not pulled:
            return
        for one in pulled:
            self._history.note(one["body"], What.ACKING)
        if self._along:
            self._acks += pulled
            return
        receipts = [one["receipt"] for one in pulled]
        response = await self._api.insist("POST", f"/v1/topics/{self._topic}/ack", {"receipts": receipts})
        self._note_acks(pulled, response.raise_for_status().json()["results"])

    def _note_acks(self, acked: list[Pulled], results: Sequence[Mapping[str, str]]) -> None:
        for one, result in zip(acked, results, strict=True):
            if result["result"] == "acked":
                self._history.note(one["body"], What.ACKED)

    async def _nack(self, one: Pulled) -> None:
        """Nacks with a delay or without one, which means after the back-off. The answer says when it is due."""
        delay = {"delay": self._random.randint(0, 1_000)} if self._random.random() < 0.5 else {}
        self._history.note(one["body"], What.MOVING, due_ms=now_ms() + delay.get("delay", 0))
        response = await self._api.call("POST", self._path(one, "nack"), {"receipt": one["receipt"], **delay})
        if response is None or response.status_code >= 500:
            return
        if response.status_code in (NOT_FOUND, CONFLICT):  # its lease has ended
            self._history.note(one["body"], What.NOT_MOVED)
        elif (due_at := response.raise_for_status().json().get("due_at")) is not None:  # else it is a dead letter
            self._history.note(one["body"], What.MOVED, due_ms=instant_ms(due_at))

    def _path(self, one: Pulled, action: str) -> str:
        return f"/v1/topics/{self._topic}/messages/{one['id']}/{action}"


class Subscriber:
    """Consumes over AMQP. `rejected`: the share of messages that it rejects."""

    def __init__(self, url: str, topic: str, history: History, random: Random, *, rejected: float = _REJECTED) -> None:
        self._url = url
        self._topic = topic
        self._history = history
        self._random = random
        self._rejected = rejected

    async def run(self) -> None:
        """Consumes for ever."""
        await amqp.consume(self._url, f"ready.{self._topic}", self._received)

    async def _received(self, message: AbstractIncomingMessage) -> None:
        key, attempt = consumed(self._history, message)
        if attempt <= LAST_RETURNED and self._random.random() < self._rejected:
            self._history.note(key, What.RETURNED, attempt=attempt)
            await self._return(message)
        else:
            self._history.note(key, What.ACKING)
            await self._finish(message)

    async def _return(self, message: AbstractIncomingMessage) -> None:
        await message.reject(requeue=False)

    async def _finish(self, message: AbstractIncomingMessage) -> None:
        await message.ack()


def consumed(history: History, message: AbstractIncomingMessage) -> tuple[str, int]:
    """Notes a delivery over AMQP. Returns the message's key and the number of the delivery.

    RabbitMQ alone delivers an AMQP client's own message of a direct topic, without a bridge's headers."""
    key, headers = str(orjson.loads(message.body)), message.headers
    due_ms, attempt = int(str(headers.get("x-delay-due", 0))), int(str(headers.get("x-delay-attempt", 1)))
    history.note(key, What.CONSUMED, due_ms=due_ms, attempt=attempt)
    return key, attempt
