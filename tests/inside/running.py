"""Runs a bridge in this process, so that tests can block its steps and make them fail."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from time import monotonic
from typing import Any

import pytest

from bridge.cli.assembly import assemble
from bridge.loops.checkpoint.batches import Batches, Done
from bridge.loops.checkpoint.cases import Item
from bridge.loops.checkpoint.due_queue import DueQueue
from bridge.service.service import Service
from bridge.settings.settings import Settings
from bridge.store.calls import Call
from tests.inside.stage import Stage


@asynccontextmanager
async def running(stage: Stage, **settings: Any) -> AsyncIterator[Service]:
    """A service on the servers of the stage, unless the settings name others. A test may stop it earlier."""
    servers = {"amqp_url": stage.amqp_url, "redis_url": stage.redis_url}
    own = Settings(**{**servers, "camellia": False, "backoff_first": 0, **settings})
    service = assemble(own).default
    await service.start()
    try:
        yield service
    finally:
        await service.stop()


async def fire_answered(service: Service) -> None:
    """Returns once Redis has answered a question of the checkpoint about a copy out of the wheel."""
    store, answered = service.loops_context.store, asyncio.Event()
    run = store.run

    async def noting(calls: Sequence[Call[Any]], until_s: float | None = None) -> list[Any]:
        answers = await run(calls, until_s)
        if any(call.script.name == "fire" for call in calls):
            answered.set()
        return answers

    store.run = noting  # type: ignore[method-assign]
    await answered.wait()


class Gate:
    """Blocks each batch of the checkpoint until `open` is called.

    `begun`: how many batches have begun. `taken`: the topics of what was taken at once, in order. `done`: how many
    copies the checkpoint has released.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun = 0
        self.taken: list[set[str]] = []
        self.done = 0
        self._read: dict[int, tuple[str, int, float]] = {}  # topic, copies and moment, by delivery tag
        self.reached = asyncio.Event()
        self._open = asyncio.Event()
        process = Batches.process

        async def waiting(batches: Batches, items: Sequence[Item]) -> Done:
            self.begun += 1
            self.reached.set()
            await self._open.wait()
            done = await process(batches, items)
            self.done += len(items)
            return done

        add = DueQueue.add

        def counting(due: DueQueue[Any], due_ms: float, topic: str, held: Any, copies: int = 1) -> None:
            self._read.setdefault(held.tag, (topic, copies, due_ms))  # a copy out of a bundle is held once more
            add(due, due_ms, topic, held, copies)

        monkeypatch.setattr(Batches, "process", waiting)
        take = DueQueue.take_due

        def taking(due: DueQueue[Any], now_ms: float, most: int) -> list[Any]:
            if found := take(due, now_ms, most):
                self.taken.append({held.topic for held in found})
            return found

        monkeypatch.setattr(DueQueue, "add", counting)
        monkeypatch.setattr(DueQueue, "take_due", taking)

    def read(self, of: str) -> int:
        """Returns how many copies of a topic the checkpoint has read."""
        return sum(copies for topic, copies, _ in self._read.values() if topic == of)

    def is_due(self, of: str) -> bool:
        """Returns whether all read copies of a topic are due by the clock that the checkpoint uses for this."""
        return all(due_ms <= monotonic() * 1_000 for topic, _, due_ms in self._read.values() if topic == of)

    def open(self) -> None:
        self._open.set()
