"""Receives callbacks in place of an HTTP server: answers, fails, is busy, or loses calls and answers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from random import Random
from typing import Final

import orjson

from bridge.loops.callbacks import loop
from bridge.loops.callbacks.decisions import Failure, Reason, Response
from bridge.model.addresses import Url
from tests.events import What
from tests.history import History
from tests.simulate.topics import CALLED
from tests.torture.api import Api
from tests.torture.sender import NOT_FOUND, OK

_PATH: Final = f"/v1/topics/{CALLED}/subscription"
_URL: Final = "https://93.184.216.34/calls/"
_SECRET: Final = "whsec_" + "A" * 32
_APART_S: Final = (3.0, 10.0)
_REMOVED: Final = 0.2  # of the changes
_ANSWERS_S: Final = (0.001, 0.4)
_ANSWERS: Final = {"ok": 80, "fail": 6, "busy": 3, "gone": 1, "lost": 5, "answer lost": 5}  # weights


class Receiver:
    """The receiver of one topic's messages. `findings`: calls for a subscription that was no longer there.

    A failover of Redis may bring a former subscription back, until the next change."""

    def __init__(self, api: Api, history: History, random: Random) -> None:
        vars(loop)["Client"] = lambda *_, **__: _Client(self)
        self._api = api
        self._history = history
        self._random = random
        self._number = 0  # of the subscription that was answered last
        self._changed_at = 0  # emptyings of Redis, as that change began
        self._is_calm = False
        self.findings: list[str] = []

    async def run(self, stop: asyncio.Event) -> None:
        """Subscribes again and again, and sometimes removes the subscription before. Ends with a subscription, and a
        receiver that answers each call."""
        while not stop.is_set():
            await self._subscribe()
            await asyncio.sleep(self._random.uniform(*_APART_S))
            if self._random.random() < _REMOVED:
                emptyings = self._history.emptyings
                removed = await self._api.insist("DELETE", _PATH)
                assert removed.status_code in (OK, NOT_FOUND), removed.text
                self._number, self._changed_at = self._number + 1, emptyings
        self._is_calm = True
        await self._subscribe()

    async def _subscribe(self) -> None:
        number, emptyings = self._number + 1, self._history.emptyings
        wanted = {
            "url": f"{_URL}{number}",
            "secret": _SECRET,
            "concurrency": self._random.choice((1, 3)),
            "timeout": "2s",
            "backoff": ["300ms", "1s"],
        }
        (await self._api.insist("PUT", _PATH, wanted)).raise_for_status()
        self._number, self._changed_at = number, emptyings

    async def call(self, url: Url, headers: dict[str, str], body: bytes) -> Response | Failure:
        """Answers a call."""
        number = int(url.target.rpartition("/")[2])
        if number < self._number and self._changed_at == self._history.emptyings:
            self.findings.append(f"{headers['x-delay-id']} is posted to subscription {number}, not {self._number}")
        await asyncio.sleep(self._random.uniform(*_ANSWERS_S) / 2)
        (answer,) = ("ok",) if self._is_calm else self._random.choices([*_ANSWERS], [*_ANSWERS.values()])
        if answer == "lost":
            return Failure(Reason.CONNECTION, "the simulated receiver got no call")
        if answer == "busy":
            return Response(503, "1")
        if answer == "gone":
            return Response(410)
        key, attempt = str(orjson.loads(body)), int(headers["x-delay-attempt"])
        due_ms, created_ms = int(headers["x-delay-due"]), int(headers["x-delay-created"])
        self._history.note(key, What.PULLED, due_ms=due_ms, attempt=attempt, created_ms=created_ms)
        if answer == "fail":
            self._history.note(key, What.RETURNED, attempt=attempt)
            return Response(500)
        self._history.note(key, What.ACKING)
        await asyncio.sleep(self._random.uniform(*_ANSWERS_S) / 2)
        return Response(204) if answer == "ok" else Failure(Reason.CONNECTION, "the answer was lost")


class _Client:
    """Takes the place of the client of callbacks."""

    def __init__(self, receiver: Receiver) -> None:
        self._receiver = receiver

    async def post(
        self, url: Url, headers: Sequence[tuple[str, str]], body: bytes, *, timeout_ms: int
    ) -> Response | Failure:
        try:
            async with asyncio.timeout(timeout_ms / 1_000):
                return await self._receiver.call(url, dict(headers), body)
        except TimeoutError:
            return Failure(Reason.TIMEOUT, f"no answer within {timeout_ms} ms")

    async def close(self) -> None:
        """Does nothing: there is no connection."""
