"""Replays and drops dead letters, one by one: not those of the topic whose letters `tests.torture.letters` replays."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from random import Random
from typing import Final

from tests.events import What
from tests.history import History
from tests.torture.api import Api
from tests.torture.sender import OK
from tests.torture.topics import LETTERS

_APART_S: Final = (1.0, 6.0)
_DROPPED: Final = 0.3


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A dead letter, as its topic lists it. `key` is its body, or its id if Redis does not keep the body."""

    history: History
    topic: str
    id: str
    key: str


class Replays:
    """Settles dead letters. `histories`: by topic."""

    def __init__(self, api: Api, histories: Mapping[str, History], random: Random) -> None:
        self._api = api
        self._histories = histories
        self._random = random

    async def run(self, stop: asyncio.Event) -> None:
        """Replays or drops a letter now and then, until `stop` is set."""
        while not stop.is_set():
            await asyncio.sleep(self._random.uniform(*_APART_S))
            # Several messages may have had one id. Without its body, nobody knows which of them a letter is.
            letters = [one async for one in self.letters() if one.topic != LETTERS and one.history.of(one.key)]
            if letters:
                letter = self._random.choice(letters)
                await (self._drop(letter) if self._random.random() < _DROPPED else self._replay(letter))

    async def letters(self) -> AsyncIterator[DeadLetter]:
        """Yields the dead letters of all topics, at most 100 of each."""
        for topic, history in self._histories.items():
            answer = await self._api.insist("GET", f"/v1/topics/{topic}/dead?limit=100")
            for item in answer.json()["items"] if answer.status_code == OK else ():
                yield DeadLetter(history, topic, item["id"], str(item.get("body", item["id"])))

    async def _replay(self, letter: DeadLetter) -> None:
        letter.history.note(letter.key, What.REPLAYING)
        answer = await self._api.call("POST", f"/v1/topics/{letter.topic}/dead/{letter.id}/replay")
        if answer is not None and answer.status_code == OK:
            letter.history.note(letter.key, What.REPLAYED)

    async def _drop(self, letter: DeadLetter) -> None:
        letter.history.note(letter.key, What.DELETING)
        answer = await self._api.call("DELETE", f"/v1/topics/{letter.topic}/dead/{letter.id}")
        if answer is not None and answer.status_code == OK:
            letter.history.note(letter.key, What.DROPPED)
