"""Pulls messages over HTTP, and acks them, nacks them, extends their leases, or lets these end."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any, Final

from tests.events import What
from tests.history import History, now_ms
from tests.torture.api import Api
from tests.torture.sender import CONFLICT, NOT_FOUND, instant_ms

_LEASE_MS: Final = (1_500, 6_000)
_WAIT_MS: Final = 2_000
_LAST_RETURNED: Final = 2  # deliveries of one message; lost ones may use up the other retries


class Puller:
    """Pulls one topic for ever. `spoiled`: the share of messages that it does not simply ack."""

    def __init__(self, api: Api, topic: str, history: History, random: Random, *, spoiled: float) -> None:
        self._api = api
        self._topic = topic
        self._history = history
        self._random = random
        self._spoiled = spoiled

    async def run(self) -> None:
        while True:
            asked_ms = now_ms()
            wanted = {
                "max": self._random.choice((1, 5, 50)),
                "wait": self._random.choice((0, _WAIT_MS, _WAIT_MS)),
                "lease": self._random.randint(*_LEASE_MS),
            }
            response = await self._api.call("POST", f"/v1/topics/{self._topic}/pull", wanted)
            if response is None or response.status_code >= 500:
                await self._api.pause()
                continue
            pulled: list[dict[str, Any]] = response.raise_for_status().json()["messages"]
            for one in pulled:
                due_ms, attempt = instant_ms(one["due_at"]), one["attempts"]
                self._history.note(one["body"], What.PULLED, due_ms=due_ms, attempt=attempt, asked_ms=asked_ms)
            await self._settle(pulled, wanted["lease"])
            if not wanted["wait"]:
                await self._api.pause()

    async def _settle(self, pulled: list[dict[str, Any]], lease_ms: int) -> None:
        acked: list[dict[str, Any]] = []
        for one in pulled:
            if self._random.random() >= self._spoiled:
                acked.append(one)
                continue
            fate = self._random.choice(("nack", "leave", "extend", "late", "alone"))
            may_return = one["attempts"] <= min(_LAST_RETURNED, max(1, self._history.max_retry))
            if fate in ("nack", "leave") and may_return:
                self._history.note(one["body"], What.RETURNED, attempt=one["attempts"])
                if fate == "nack":
                    await self._nack(one)
            elif fate == "extend":
                await self._extend(one)
                acked.append(one)
            elif fate == "late" and may_return:
                self._history.note(one["body"], What.RETURNED, attempt=one["attempts"])
                await asyncio.sleep(lease_ms / 1_000 * self._random.uniform(0.9, 1.2))
                await self._ack_one(one)
            else:
                await self._ack_one(one)
        if acked:
            await self._ack(acked)

    async def _ack(self, pulled: list[dict[str, Any]]) -> None:
        for one in pulled:
            self._history.note(one["body"], What.ACKING)
        receipts = [one["receipt"] for one in pulled]
        response = await self._api.insist("POST", f"/v1/topics/{self._topic}/ack", {"receipts": receipts})
        for one, result in zip(pulled, response.raise_for_status().json()["results"], strict=True):
            if result["result"] == "acked":
                self._history.note(one["body"], What.ACKED)

    async def _ack_one(self, one: dict[str, Any]) -> None:
        self._history.note(one["body"], What.ACKING)
        response = await self._api.call("POST", self._path(one, "ack"), {"receipt": one["receipt"]})
        if response is not None and response.status_code < 300:
            self._history.note(one["body"], What.ACKED)

    async def _extend(self, one: dict[str, Any]) -> None:
        """Extends the lease, and works on."""
        extended = {"receipt": one["receipt"], "lease": self._random.randint(*_LEASE_MS)}
        response = await self._api.call("POST", self._path(one, "extend"), extended)
        if response is not None and response.status_code < 300:
            await asyncio.sleep(self._random.uniform(0, extended["lease"]) / 1_000)

    async def _nack(self, one: dict[str, Any]) -> None:
        """Nacks with a delay or without one, which means after the back-off. The answer says when it is due."""
        delay = {"delay": self._random.randint(0, 1_000)} if self._random.random() < 0.5 else {}
        self._history.note(one["body"], What.MOVING, due_ms=now_ms() + delay.get("delay", 0))
        response = await self._api.call("POST", self._path(one, "nack"), {"receipt": one["receipt"], **delay})
        if response is None or response.status_code >= 500:
            return
        if response.status_code in (NOT_FOUND, CONFLICT):
            self._history.note(one["body"], What.NOT_MOVED)
        elif (due_at := response.raise_for_status().json().get("due_at")) is not None:
            self._history.note(one["body"], What.MOVED, due_ms=instant_ms(due_at))

    def _path(self, one: dict[str, Any], action: str) -> str:
        return f"/v1/topics/{self._topic}/messages/{one['id']}/{action}"
