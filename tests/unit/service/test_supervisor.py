"""A loop is ended by whoever cancels it, and by nothing that it waits for."""

from __future__ import annotations

import asyncio

import pytest

from bridge.broker.client.connection import translated
from bridge.model.errors import BrokerUnavailable
from bridge.service.supervisor import supervise


def cancelled() -> asyncio.Future[None]:
    """What aiormq leaves of a call whose connection is lost."""
    future = asyncio.get_running_loop().create_future()
    future.cancel()
    return future


class Interrupted:
    """A loop in which something is cancelled the first time it runs."""

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


async def test_a_loop_runs_again_after_something_it_waited_for_was_cancelled() -> None:
    loop = Interrupted()
    supervised = asyncio.create_task(supervise(loop))
    await loop.again.wait()
    assert loop.runs == 2
    supervised.cancel()
    with pytest.raises(asyncio.CancelledError):
        await supervised


async def test_a_call_that_the_client_library_cancels_says_that_the_connection_was_lost() -> None:
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


async def test_a_call_that_the_client_library_fails_with_nothing_but_an_exception_says_the_same() -> None:
    with pytest.raises(BrokerUnavailable, match="lost"):
        async with translated():
            raise Exception  # noqa: TRY002 - as aiormq does


async def test_a_broker_that_ends_the_connection_before_its_first_word_is_away() -> None:
    with pytest.raises(BrokerUnavailable, match="away"):
        async with translated():
            raise StopAsyncIteration  # as aiormq does


async def test_a_fault_of_ours_in_a_call_is_not_taken_for_a_lost_connection() -> None:
    with pytest.raises(KeyError):
        async with translated():
            raise KeyError
