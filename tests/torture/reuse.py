"""Uses ids again: after their message has ended, by two clients at once, and after their topic or Redis lost them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from random import Random
from time import monotonic

from benchmarks.loops import together
from tests.events import What
from tests.torture.producers import paced
from tests.torture.sender import NOT_FOUND, Sender
from tests.torture.topics import CHECKED, PULLED, REMOVED, first
from tests.waiting import pause

_AGAIN, _SHARED, _FORGOTTEN = 0.01, 0.02, 0.02  # of the rate
TIMES = 3
_SHORT_MS, _LONG_MS = (0, 1_500), (3_000, 8_000)
_ACKED_WITHIN_S = 20.0
_LOOK_S = 0.2
_IDS = 20
_LIFE_S = (0.5, 4.0)  # of a topic


class Reuse:
    """Sends messages whose ids were used before. Their keys are new. `pulled`, `checked`: the topics that it sends
    to."""

    def __init__(
        self, sender: Sender, random: Random, *, pulled: Sequence[str] = PULLED, checked: Sequence[str] = CHECKED
    ) -> None:
        self._sender = sender
        self._history = sender.history
        self._random = random
        self._pulled = pulled
        self._checked = checked
        self.findings: list[str] = []

    async def run(self, stop: asyncio.Event, rate_per_s: float) -> None:
        """Sends until `stop` is set, and returns when every message is accepted."""
        async with together() as group:
            group.create_task(paced(self.again, rate_per_s * _AGAIN, stop))
            group.create_task(paced(self.shared, rate_per_s * _SHARED, stop))
            group.create_task(paced(self.forgotten, rate_per_s * _FORGOTTEN, stop))
            group.create_task(self.removed(stop, _IDS))

    async def again(self, number: int) -> None:
        """Sends one id a few times, each time after the message before was acknowledged or deleted."""
        topic, message_id = self._random.choice(self._pulled), f"again-{number}"
        for time in range(TIMES):
            key, deleted = f"{message_id}#{time}", self._random.random() < 0.5
            delay_ms = self._random.randint(*(_LONG_MS if deleted else _SHORT_MS))
            if await self._sender.send(topic, key, {"delay": delay_ms}, message_id=message_id):
                return  # a failed try may have made a message beside the accepted one, which answers the next send
            if deleted:
                await asyncio.sleep(self._random.uniform(0, delay_ms) / 1_000)
                ended = await self._sender.delete(topic, key, message_id=message_id)
            else:
                ended = await self._acked(key)
            if not ended:
                return

    async def _acked(self, key: str) -> bool:
        """Waits until the message is acknowledged. Returns False if that takes long."""
        give_up_at_s = monotonic() + _ACKED_WITHIN_S
        while key not in self._history.acked:
            if monotonic() > give_up_at_s:
                return False
            await pause(_LOOK_S)
        return True

    async def shared(self, number: int) -> None:
        """Sends one id over HTTP, once, and over AMQP. At least one of the two messages must come."""
        topic, key = self._random.choice(self._checked), f"shared-{number}"
        self._history.note(key, What.BESIDE)
        await asyncio.gather(
            self._sender.try_to_send(topic, key, {"delay": self._random.randint(*_LONG_MS)}),
            self._sender.publish(topic, key, self._random.randrange(*_LONG_MS, 100)),
        )

    async def forgotten(self, number: int) -> None:
        """Sends a message, and another one of its id if Redis is emptied before the first is due. Both must come."""
        topic, message_id, emptyings = (
            self._random.choice(self._checked),
            f"forgotten-{number}",
            self._history.emptyings,
        )
        delay_ms = self._random.randint(*_LONG_MS)
        due_s = monotonic() + delay_ms / 1_000
        if emptyings % 2 or await self._sender.send(topic, message_id, {"delay": delay_ms}):
            return
        while monotonic() < due_s - 1.0:
            if self._history.emptyings == emptyings + 2:
                when = {"delay": self._random.randint(*_LONG_MS)}
                await self._sender.try_to_send(topic, f"{message_id}#1", when, message_id=message_id)
                return
            await pause(_LOOK_S)

    async def removed(self, stop: asyncio.Event, ids: int) -> None:
        """Sends the same ids to a topic again and again, and removes the topic with its messages each time."""
        time = 0
        while not stop.is_set():
            keys = {f"removed-{number}": f"removed-{number}#{time}" for number in range(ids)}
            sent = await asyncio.gather(
                *(
                    self._sender.send(REMOVED, key, {"delay": self._random.randint(0, _LONG_MS[1])}, message_id=one)
                    for one, key in keys.items()
                )
            )
            await asyncio.sleep(self._random.uniform(*_LIFE_S))
            # A try without an answer may create its message after the topic's end.
            known = [key for key, failed in zip(keys.values(), sent, strict=True) if None not in failed]
            # The topic's first message may have been returned, and wait for its next delivery.
            await self._remove(known, [*keys.values(), first(REMOVED)])
            time += 1

    async def _remove(self, known: list[str], keys: list[str]) -> None:
        for key in keys:
            self._history.note(key, What.DELETING)
        tries, emptyings = 0, self._history.emptyings
        while True:
            tries += 1
            response = await self._sender.api.call("DELETE", f"/v1/topics/{REMOVED}?force=true")
            if response is not None and response.status_code < 500:
                break
            await self._sender.api.pause()
        if response.status_code == NOT_FOUND and emptyings != self._history.emptyings:
            return
        if response.status_code == NOT_FOUND and tries == 1:
            self.findings.append(f"the topic {REMOVED} is unknown, although it has messages")
            return
        if response.status_code != NOT_FOUND:
            response.raise_for_status()
        for key in known:
            self._history.note(key, What.DELETED)
