"""Keeps a schedule, and consumes its ticks."""

from __future__ import annotations

import asyncio
from time import monotonic

from tests.history import History
from tests.torture.api import Api
from tests.torture.sender import NOT_FOUND
from tests.torture.topics import TICKED

_SCHEDULE = "/v1/schedules/torture"
_SPEC = {"every": "2s", "topic": TICKED, "message": {"body": "tick"}}
_LOOK_S = 3.0
_SILENT_S = 20.0  # a fault lasts four seconds, and a server's start follows


class Ticks:
    """Puts the schedule, and again when Redis has been emptied. `findings`: when it was unknown or silent otherwise."""

    def __init__(self, api: Api, history: History) -> None:
        self._api = api
        self._history = history
        self._ticked_s = monotonic()
        self._known_at = -1  # how often Redis had been emptied when it last knew the schedule
        self.findings: list[str] = []

    async def run(self, stop: asyncio.Event) -> None:
        """Looks at the schedule until `stop` is set."""
        while not stop.is_set():
            emptyings = self._history.emptyings
            found = await self._api.insist("GET", _SCHEDULE)
            if found.status_code == NOT_FOUND:
                if self._known_at == emptyings == self._history.emptyings:
                    self.findings.append("the schedule is unknown, although nobody removed it")
                (await self._api.insist("PUT", _SCHEDULE, _SPEC)).raise_for_status()
            self._known_at = emptyings
            await asyncio.sleep(_LOOK_S)

    async def consume(self) -> None:
        """Consumes the ticks for ever."""
        pull = f"/v1/topics/{TICKED}/pull"
        while True:
            response = await self._api.insist("POST", pull, {"max": 50, "wait": 2_000, "lease": 5_000})
            pulled = response.raise_for_status().json()["messages"]
            if pulled:
                self._ticked_s = monotonic()
                receipts = [one["receipt"] for one in pulled]
                await self._api.insist("POST", f"/v1/topics/{TICKED}/ack", {"receipts": receipts})

    def end(self) -> None:
        """Notes at the end of a calm time whether the schedule is silent. Nobody has put it again if Redis was emptied
        after the last look."""
        if self._known_at == self._history.emptyings and (silent_s := monotonic() - self._ticked_s) > _SILENT_S:
            self.findings.append(f"the schedule was silent for {silent_s:.0f} s, though it ticks every two")
