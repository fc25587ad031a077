"""Tests that a loop ends when its owner cancels it, and not when a call it waits for is cancelled."""

from __future__ import annotations

import asyncio

import pytest

from bridge.broker.client.connection import translated
from bridge.model.errors import BrokerUnavailable
from bridge.service.supervisor import supervise


def cancelled() -> asyncio.Future[None]:
    """A cancelled future, as aiormq leaves for a call whose connection is lost."""
    future = asyncio.get_running_loop().create_future()
    future.cancel()
    return future


class Interrupted:
    """A loop whose first run waits for a call that is cancelled."""

    name, state = "interrupted", "ok"

    def __init__(self) -> None:
        self.runs = 0
        self.again = asyncio.Event()

    async def run(self) -> None:
        self.runs += 1
        if self.runs == 1:
            await cancelled()
        self.again.set()
        await asyncio.Event().wait()


async def test_a_loop_runs_again_after_a_call_it_waited_for_was_cancelled() -> None:
    loop = Interrupted()
    supervised = asyncio.create_task(supervise(loop))
    await loop.again.wait()
    assert loop.runs == 2
    supervised.cancel()
    with pytest.raises(asyncio.CancelledError):
        await supervised


async def test_a_call_that_the_client_library_cancels_raises_a_lost_connection() -> None:
    with pytest.raises(BrokerUnavailable, match="lost"):
        async with translated():
            await cancelled()


async def test_a_call_that_is_cancelled_by_its_caller_is_cancelled() -> None:
    async def call() -> None:
        async with translated():
            began.set()
            await asyncio.Event().wait()

    began = asyncio.Event()
    calling = asyncio.create_task(call())
    await began.wait()
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling


async def test_a_bare_exception_of_the_client_library_raises_a_lost_connection() -> None:
    with pytest.raises(BrokerUnavailable, match="lost"):
        async with translated():
            raise Exception  # noqa: TRY002 - as aiormq does


async def test_a_broker_that_closes_before_its_first_frame_is_unavailable() -> None:
    with pytest.raises(BrokerUnavailable, match="away"):
        async with translated():
            raise StopAsyncIteration  # as aiormq does


async def test_a_bug_in_a_call_does_not_raise_a_lost_connection() -> None:
    with pytest.raises(KeyError):
        async with translated():
            raise KeyError
