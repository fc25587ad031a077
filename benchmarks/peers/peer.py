"""Defines the interface of a peer, and the loads for peers with a client in this process."""

from __future__ import annotations

import asyncio
import random
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from itertools import count
from time import time
from typing import Final

import orjson

from benchmarks import loops
from benchmarks.bodies import BODY

CLIENTS: Final = 64
BATCH_CLIENTS: Final = 8
BATCH: Final = 100
SENDERS = TAKERS = 4
CYCLE_DELAY_MS: Final = 1_000
LEAST_MS: Final = 1_000
LATE_WITHIN_S: Final = 60.0  # a later message counts as lost
_FAR_MS: Final = 600_000
_BODY: Final = orjson.dumps(BODY)


class NotRun(Exception):
    """A peer can't be run here. The message says what is missing."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Load:
    """The durations and sizes of the loads, the same as for the bridge."""

    seconds: float
    cycle_s: float
    warm_s: float
    window: int
    rate_per_s: int
    lateness_s: float
    longest_ms: int


class Peer(ABC):
    """A delay queue to compare with. `accepted`: what its answer to a send guarantees. `whole_seconds`: its delays are
    whole seconds."""

    name: str
    accepted: str
    whole_seconds = False

    @abstractmethod
    def running(self) -> AbstractAsyncContextManager[None]:
        """Runs its servers and connections.

        Raises:
            NotRun: the peer can't be run here.
        """

    @abstractmethod
    async def single(self, load: Load) -> float:
        """Returns the accepted sends per second of 64 clients."""

    @abstractmethod
    async def batches(self, load: Load) -> float:
        """Returns the accepted sends per second of 8 clients, in batches of 100.

        Raises:
            NotRun: the peer has no batches.
        """

    @abstractmethod
    async def cycle(self, load: Load) -> float:
        """Returns the messages per second that are sent, delayed by 1 s, taken and acknowledged."""

    @abstractmethod
    async def lateness_ms(self, load: Load) -> list[float]:
        """Returns how late each message of an open loop came, counted from its planned moment."""

    async def versions(self) -> dict[str, str]:
        """Returns the versions of its software."""
        return {}


class Queue(Peer):
    """A peer with a client in this process."""

    @abstractmethod
    async def send(self, messages: Sequence[tuple[str, bytes, int]]) -> None:
        """Sends messages and returns once they are accepted. A message is an id, a body and a delay in ms."""

    @abstractmethod
    async def take(self) -> list[str]:
        """Takes up to 100 due messages, acknowledges them, and returns their ids. Waits a little for the first one."""

    @asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        """Runs what the queue needs while messages are taken, such as a poller."""
        yield

    async def single(self, load: Load) -> float:
        numbers = count()

        async def one() -> int:
            await self.send([(f"one-{next(numbers)}", _BODY, _FAR_MS)])
            return 1

        await loops.closed_loop(CLIENTS, load.warm_s, one)
        return await loops.closed_loop(CLIENTS, load.seconds, one)

    async def batches(self, load: Load) -> float:
        numbers = count()

        async def batch() -> int:
            await self.send([(f"batch-{next(numbers)}", _BODY, _FAR_MS) for _ in range(BATCH)])
            return BATCH

        await loops.closed_loop(BATCH_CLIENTS, load.warm_s, batch)
        return await loops.closed_loop(BATCH_CLIENTS, load.seconds, batch)

    async def cycle(self, load: Load) -> float:
        numbers = count()

        async def send() -> int:
            await self.send([(f"cycle-{next(numbers)}", _BODY, CYCLE_DELAY_MS) for _ in range(BATCH)])
            return BATCH

        async def take() -> int:
            return len(await self.take())

        async with self.working():
            per_s, _ = await loops.sustained(
                send,
                take,
                senders=SENDERS,
                takers=TAKERS,
                window=load.window,
                warm_s=CYCLE_DELAY_MS / 1_000 + load.warm_s,
                seconds=load.cycle_s,
            )
        return per_s

    async def lateness_ms(self, load: Load) -> list[float]:
        messages = int(load.rate_per_s * load.lateness_s)
        delays_ms = random_delays_ms(messages, load.longest_ms, whole_seconds=self.whole_seconds)
        came_ms: dict[int, float] = {}

        async def send(at: int) -> None:
            await self.send([(f"late-{at}", _BODY, delays_ms[at])])

        async def take() -> None:
            while len(came_ms) < messages:
                ids = await self.take()
                now_ms = time() * 1_000
                came_ms.update((int(each[5:]), now_ms) for each in ids if each.startswith("late-"))

        async with self.working(), asyncio.timeout(load.lateness_s + LATE_WITHIN_S), loops.together() as group:
            taking = [group.create_task(take()) for _ in range(TAKERS)]
            planned_ms = await loops.open_loop(messages, load.rate_per_s, send)
            await taking[0]
            await loops.end(taking)
        return [came_ms[at] - planned_ms[at] - delays_ms[at] for at in range(messages)]


def random_delays_ms(messages: int, longest_ms: int, *, whole_seconds: bool) -> list[int]:
    """Returns random delays from 1 s to `longest_ms`."""
    unit_ms = 1_000 if whole_seconds else 1
    return [unit_ms * random.randint(LEAST_MS // unit_ms, longest_ms // unit_ms) for _ in range(messages)]
