"""Changes topics' policies during a run: to direct release and back, paused and resumed."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from http import HTTPStatus
from random import Random
from time import monotonic
from typing import Any

from tests.history import History
from tests.torture.api import Api

_APART_S = (2.0, 6.0)
_FOLLOWED_S = 3.0  # other processes follow a change within two seconds
_ROUND: tuple[tuple[str, str, Any], ...] = (
    ("PATCH", "", {"release": "direct"}),
    ("POST", "/pause", None),
    ("POST", "/resume", None),
    ("PATCH", "", {"release": "checked"}),
    ("POST", "/pause", None),
    ("POST", "/resume", None),
)


class Policies:
    """Changes the policies of topics, and knows what may hold for a topic at the moment."""

    def __init__(self, api: Api, history: History, random: Random) -> None:
        self._api = api
        self._history = history
        self._random = random
        self._direct_until_s: dict[str, float] = {}
        self._paused: dict[str, tuple[float, int]] = {}  # since when, and how often Redis had been emptied

    def may_be_direct(self, topic: str) -> bool:
        """Whether a process may think that the topic is on direct release."""
        return monotonic() < self._direct_until_s.get(topic, 0.0)

    def pause_of(self, topic: str) -> float | None:
        """The moment that identifies the pause which every process knows of, and which nobody has begun to end."""
        since_s, emptyings = self._paused.get(topic, (float("inf"), 0))
        known = monotonic() > since_s + _FOLLOWED_S and emptyings == self._history.emptyings
        return since_s if known else None

    async def run(self, topics: Sequence[str], stop: asyncio.Event) -> None:
        """Changes the policies of all topics until `stop` is set. Each round ends with checked release, not paused."""
        while not stop.is_set():
            for method, path, body in _ROUND:
                await asyncio.gather(*(self._change(topic, method, path, body) for topic in topics))
                if stop.is_set():
                    continue
                await asyncio.sleep(self._random.uniform(*_APART_S))

    async def _change(self, topic: str, method: str, path: str, body: Any) -> None:
        direct = body == {"release": "direct"}
        if direct:
            self._direct_until_s[topic] = float("inf")
        self._paused.pop(topic, None)
        emptyings = self._history.emptyings
        response = await self._api.insist(method, f"/v1/topics/{topic}{path}", body)
        if response.status_code == HTTPStatus.NOT_FOUND and self._history.emptyings:
            return  # an emptied Redis knows no topic
        response.raise_for_status()
        if path == "/pause":
            self._paused[topic] = monotonic(), emptyings
        elif body is not None and not direct:
            self._direct_until_s[topic] = monotonic() + _FOLLOWED_S
