"""Calls the bridges from hundreds of clients at once, for a while."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from random import Random

from benchmarks.loops import end
from tests.events import What
from tests.history import History
from tests.torture import api as http
from tests.torture.amqp import Publisher
from tests.torture.consumers import Puller
from tests.torture.policies import Policies
from tests.torture.sender import CREATED, NOT_FOUND, OK, Sender
from tests.torture.topics import CROWDED

_PAUSE_S = (0.5, 1.5)
_RETRY_S = (2.0, 6.0)  # refused callers that come again sooner would keep the machine from ever recovering
_LONGEST_MS = 1_500


class Crowd:
    """Half of the callers send messages and look them up, and half wait in long polls."""

    def __init__(self, urls: Sequence[str], history: History, policies: Policies, *, callers: int, seed: int) -> None:
        self._urls = urls
        self._history = history
        self._policies = policies
        self._callers = callers
        self._seed = seed

    async def run(self, publisher: Publisher, begin_s: float, seconds: float) -> None:
        """Waits for `begin_s`, and then calls for as many seconds. Nobody sends again."""
        await asyncio.sleep(begin_s)
        random = Random(self._seed)
        async with http.opened(self._urls, self._seed, connections=self._callers, pause_s=_RETRY_S) as api:
            sender = Sender(api, publisher, self._history, self._policies)
            pullers = [Puller(api, CROWDED, self._history, self._policies, random) for _ in range(self._callers // 2)]
            polls = [asyncio.create_task(puller.run()) for puller in pullers]
            until_s = asyncio.get_running_loop().time() + seconds
            try:
                await asyncio.gather(*(self._call(sender, one, until_s, random) for one in range(self._callers // 2)))
            finally:
                await end(polls)

    async def _call(self, sender: Sender, caller: int, until_s: float, random: Random) -> None:
        number = 0
        while asyncio.get_running_loop().time() < until_s:
            key = f"crowd-{caller}-{number}"
            number += 1
            status = await sender.try_to_send(CROWDED, key, {"delay": random.randint(0, _LONGEST_MS)})
            if status not in (OK, CREATED):
                await sender.api.pause()
                continue
            found = await sender.api.call("GET", f"/v1/topics/{CROWDED}/messages/{key}")
            if found is not None and found.status_code == NOT_FOUND:
                self._history.note(key, What.FORGOTTEN)
            await asyncio.sleep(random.uniform(*_PAUSE_S))
