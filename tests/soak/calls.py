"""Calls the bridge, and checks each answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from typing import Any, Final
from urllib.parse import quote

import httpx2

from tests.waiting import pause

_TIMEOUT_S: Final = 30.0
_PAUSE_S: Final = 0.5


class WrongAnswer(Exception):
    """An answer has another status than those that its caller expects."""


class Calls:
    """The calls of one round. `mark` is in each name that the round makes, so that no round meets the names of another.
    `busy` has the answers that asked to try again."""

    def __init__(self, http: httpx2.AsyncClient, mark: str, random: Random) -> None:
        self._http = http
        self.mark = mark
        self.random = random
        self.busy: list[str] = []

    async def ask(
        self, method: str, path: str, json: object = None, *, expect: tuple[int, ...] = (200,), **how: Any
    ) -> Any:
        """Calls until an answer is below 500. Returns its JSON, or None without content.

        Raises:
            WrongAnswer
        """
        while (answer := await self._http.request(method, path, json=json, **how)).status_code >= 500:
            self.busy.append(f"{method} {path}: {answer.text}")
            await pause(_PAUSE_S)
        if answer.status_code not in expect:
            given = {"json": json, **how}
            before = f" (answers that asked to try again: {len(self.busy)}, the last: {self.busy[-1:]})"
            raise WrongAnswer(f"{method} {path} {given} was answered {answer.status_code}: {answer.text}{before}")
        return answer.json() if answer.content else None

    def check(self, answer: object, right: bool) -> None:
        """Raises WrongAnswer if the content of an answer is not right."""
        if not right:
            raise WrongAnswer(f"the answer is wrong: {answer}")

    async def leave(self, path: str, json: object, after_s: float) -> None:
        """Posts, and closes the connection after some time if there is no answer by then."""
        try:
            async with asyncio.timeout(after_s):
                await self._http.post(path, json=json)
        except TimeoutError:
            pass


def at(topic: str, rest: str = "") -> str:
    """The path of a call on the topic."""
    return f"/v1/topics/{quote(topic, safe='')}{rest}"


@asynccontextmanager
async def calling(url: str, mark: str, random: Random) -> AsyncIterator[Calls]:
    """Closes its connections at the end."""
    async with httpx2.AsyncClient(base_url=url, timeout=_TIMEOUT_S, limits=httpx2.Limits(max_connections=None)) as http:
        yield Calls(http, mark, random)
