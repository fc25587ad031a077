"""Changes thousands of waiting messages by bulk operations, which the faults interrupt."""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import Any

from tests.history import History
from tests.torture.api import Api
from tests.torture.sender import NOT_FOUND
from tests.torture.topics import BULK
from tests.waiting import pause

_MESSAGES = 1_200  # more than 1,000, so a call becomes an operation
_BATCH = 100
_DELAY_MS = 3_600_000
_LOOK_S = 0.5
_PATIENCE_S = 120.0


class Bulk:
    """Sends messages that are due in an hour, moves all by one operation, and deletes all by another. They are not in
    the history: they never come. `findings`: which operation did not end, or failed."""

    def __init__(self, api: Api, history: History) -> None:
        self._api = api
        self._history = history
        self.findings: list[str] = []

    async def run(self, stop: asyncio.Event) -> None:
        """Repeats this until `stop` is set, and ends the round that it has begun."""
        turn = 0
        while not stop.is_set():
            for start in range(0, _MESSAGES, _BATCH):
                ids = [f"bulk-{turn}-{number}" for number in range(start, start + _BATCH)]
                batch = [{"id": one, "body": one, "delay": _DELAY_MS} for one in ids]
                sent = await self._api.insist("POST", f"/v1/topics/{BULK}/messages/batch", {"messages": batch})
                sent.raise_for_status()
            await self._operation("move", {"delay": _DELAY_MS * 2})
            await self._operation("delete", {})
            turn += 1

    async def _operation(self, action: str, what: dict[str, Any]) -> None:
        """Does this to all waiting messages of the topic."""
        emptyings = self._history.emptyings
        wanted = {"topic": BULK, "state": ["waiting"], **what}
        answer = await self._api.insist("POST", f"/v1/messages:{action}", wanted)
        if answer.status_code == NOT_FOUND and self._history.emptyings:
            return  # Redis has lost the topic
        began = answer.raise_for_status().json()
        # A try without an answer may have begun an operation, and then a later one finds fewer.
        if began["operation"] is not None:
            operation = Operation(self._api, self._history, began["operation"]["id"], emptyings)
            await operation.ended()
            self.findings += operation.findings


class Operation:
    """An operation that was begun after so many `emptyings` of Redis. `findings`: that it did not end, or failed."""

    def __init__(self, api: Api, history: History, operation_id: str, emptyings: int) -> None:
        self._api = api
        self._history = history
        self._id = operation_id
        self._emptyings = emptyings
        self.findings: list[str] = []

    async def ended(self) -> dict[str, Any] | None:
        """Waits until the operation has ended. Returns its last state, or None if it is unknown or goes on for long."""
        give_up_at_s = monotonic() + _PATIENCE_S
        while monotonic() < give_up_at_s:
            answer = await self._api.insist("GET", f"/v1/operations/{self._id}")
            if answer.status_code == NOT_FOUND:
                if self._emptyings == self._history.emptyings:
                    self.findings.append(f"the operation {self._id} is unknown, although it was begun")
                return None
            operation: dict[str, Any] = answer.raise_for_status().json()
            if operation["state"] != "running":
                if operation["state"] != "done":
                    self.findings.append(f"the operation {self._id} ended so: {operation}")
                return operation
            await pause(_LOOK_S)
        self.findings.append(f"the operation {self._id} has not ended within {_PATIENCE_S:.0f} s")
        return None
