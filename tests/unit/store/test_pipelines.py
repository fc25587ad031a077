"""Callers share a bounded number of connections to Redis."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from bridge.model.errors import StoreUnavailable
from bridge.store.servers.pipelines import MOST_COMMANDS, Pipelines
from bridge.store.servers.servers import PackedCommand


class Line:
    """Answers each command with itself, once the gate is open."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.batches: list[tuple[list[bytes], bool]] = []
        self.error: Exception | None = None

    async def run(self, commands: Sequence[PackedCommand], timed: bool) -> list[Any]:
        self.batches.append(([one.packed for one in commands], timed))
        await self.gate.wait()
        if self.error is not None:
            raise self.error
        return [one.packed for one in commands]


def asked(*words: bytes) -> list[PackedCommand]:
    return [PackedCommand("key", word) for word in words]


async def test_calls_beyond_the_places_go_out_together_and_each_gets_its_own_answers() -> None:
    line = Line()
    pipelines = Pipelines(line.run, limit_s=5, places=2)
    calls = [
        asyncio.create_task(pipelines.ask(asked(b"%d-a" % number, b"%d-b" % number), timed=number == 4))
        for number in range(5)
    ]
    await asyncio.sleep(0)
    assert len(line.batches) == 2

    line.gate.set()
    assert await asyncio.gather(*calls) == [[b"%d-a" % number, b"%d-b" % number] for number in range(5)]
    assert line.batches[2:] == [([b"4-a", b"4-b", b"2-a", b"2-b", b"3-a", b"3-b"], True)]


async def test_the_commands_of_a_caller_that_gave_up_are_not_sent() -> None:
    line = Line()
    pipelines = Pipelines(line.run, limit_s=5, places=1)
    first = asyncio.create_task(pipelines.ask(asked(b"first"), False))
    gone = asyncio.create_task(pipelines.ask(asked(b"gone"), False))
    last = asyncio.create_task(pipelines.ask(asked(b"last"), False))
    await asyncio.sleep(0)
    gone.cancel()
    await asyncio.sleep(0)

    line.gate.set()
    assert (await first, await last) == ([b"first"], [b"last"])
    assert [commands for commands, _ in line.batches] == [[b"first"], [b"last"]]


async def test_a_place_is_free_again_after_a_failure_and_each_caller_gets_an_error_of_its_own() -> None:
    line = Line()
    pipelines = Pipelines(line.run, limit_s=5, places=1)
    line.error = StoreUnavailable("Redis did not answer", partly=True)
    calls = [asyncio.create_task(pipelines.ask(asked(b"%d" % number), False)) for number in range(3)]
    await asyncio.sleep(0)
    line.gate.set()
    errors = await asyncio.gather(*calls, return_exceptions=True)
    assert [(type(error), str(error)) for error in errors] == [(StoreUnavailable, "Redis did not answer")] * 3
    assert all(isinstance(error, StoreUnavailable) and error.partly for error in errors)
    assert errors[1] is not errors[2]

    line.error = None
    assert await pipelines.ask(asked(b"again"), False) == [b"again"]


async def test_a_call_that_waits_too_long_ends_with_a_timeout() -> None:
    line = Line()
    pipelines = Pipelines(line.run, limit_s=0.01, places=1)
    first = asyncio.create_task(pipelines.ask(asked(b"first"), False))
    await asyncio.sleep(0)
    with pytest.raises(TimeoutError):
        await pipelines.ask(asked(b"waits"), False)
    line.gate.set()
    assert await first == [b"first"]
    assert [commands for commands, _ in line.batches] == [[b"first"]]


async def test_more_callers_than_the_limit_are_refused() -> None:
    line = Line()
    pipelines = Pipelines(line.run, limit_s=5, places=1, most_waiting=1)
    calls = [asyncio.create_task(pipelines.ask(asked(b"%d" % number), False)) for number in range(2)]
    await asyncio.sleep(0)
    with pytest.raises(StoreUnavailable, match="1 calls wait for Redis already"):
        await pipelines.ask(asked(b"refused"), False)
    line.gate.set()
    await asyncio.gather(*calls)


async def test_a_shared_pipeline_has_a_bound() -> None:
    line = Line()
    pipelines = Pipelines(line.run, limit_s=5, places=1)
    calls = [
        asyncio.create_task(pipelines.ask(asked(*[b"%d" % number] * (MOST_COMMANDS // 2)), False))
        for number in range(4)
    ]
    await asyncio.sleep(0)
    line.gate.set()
    await asyncio.gather(*calls)
    assert [len(commands) for commands, _ in line.batches] == [MOST_COMMANDS // 2, MOST_COMMANDS, MOST_COMMANDS // 2]
