"""Tests that worker processes ask each other. Here three of them share one process, with the same sockets as real
ones."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from bridge.service.pools.worker_rpc import WorkerRpc

NAMES = ("api-1", "api-2", "checkpoint-1")


@pytest.fixture
async def three() -> AsyncIterator[list[WorkerRpc]]:
    siblings = WorkerRpc.of(NAMES)
    yield siblings
    for one in siblings:
        one.end()
    for one in siblings:
        one.close()


def answering(answer: Any) -> Callable[[], Awaitable[Any]]:
    async def answer_it() -> Any:
        return answer

    return answer_it


async def failing() -> Any:
    raise OSError("it has no answer")


async def test_each_worker_answers_for_itself(three: list[WorkerRpc]) -> None:
    for one in three:
        one.listen({"name": answering(one.name), "roles": answering(["of", one.name])})

    assert await three[0].ask("name") == {"api-2": "api-2", "checkpoint-1": "checkpoint-1"}
    assert await three[2].ask("roles") == {"api-1": ["of", "api-1"], "api-2": ["of", "api-2"]}


async def test_an_answer_may_be_larger_than_a_socket_buffer(three: list[WorkerRpc]) -> None:
    for one in three:
        one.listen({"all": answering("x" * 5_000_000)})

    assert [len(answer) for answer in (await three[0].ask("all")).values()] == [5_000_000] * 2


async def test_workers_may_ask_concurrently(three: list[WorkerRpc]) -> None:
    for one in three:
        one.listen({"name": answering(one.name)})

    answers = await asyncio.gather(*(one.ask("name") for one in three for _ in range(4)))

    assert all(set(answer.values()) == set(answer) and len(answer) == 2 for answer in answers)


async def test_a_worker_that_fails_answers_none_and_delays_no_other(three: list[WorkerRpc]) -> None:
    three[1].listen({"name": failing})
    three[2].listen({"name": answering("here")})

    assert await three[0].ask("name") == {"api-2": None, "checkpoint-1": "here"}


async def test_a_question_waits_for_a_worker_that_restarts(three: list[WorkerRpc]) -> None:
    for one in three[:2]:
        one.listen({"name": answering("at once")})
    asked = asyncio.create_task(three[0].ask("name"))
    await three[2].ask("name")  # by now the first question has reached the worker that does not listen yet
    three[2].listen({"name": answering("later")})

    assert await asked == {"api-2": "at once", "checkpoint-1": "later"}


async def test_a_lone_process_asks_nobody() -> None:
    alone = WorkerRpc()
    alone.listen({})

    assert (alone.name, await alone.ask("name")) == ("", {})
    alone.end()
