"""Worker processes that ask each other: here three of them in one process, over the sockets that they would have."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from bridge.service.worker_rpc import WorkerRpc

NAMES = ("api-1", "api-2", "checkpoint-1")


@pytest.fixture
async def three() -> AsyncIterator[list[WorkerRpc]]:
    siblings = WorkerRpc.of(NAMES)
    yield siblings
    for one in siblings:
        one.end()
    for one in siblings:
        one.close()


def saying(answer: Any) -> Callable[[], Awaitable[Any]]:
    async def said() -> Any:
        return answer

    return said


async def failing() -> Any:
    raise OSError("it has no answer")


async def test_each_is_asked_and_answers_for_itself(three: list[WorkerRpc]) -> None:
    for one in three:
        one.listen({"name": saying(one.name), "roles": saying(["of", one.name])})

    assert await three[0].ask("name") == {"api-2": "api-2", "checkpoint-1": "checkpoint-1"}
    assert await three[2].ask("roles") == {"api-1": ["of", "api-1"], "api-2": ["of", "api-2"]}


async def test_an_answer_may_be_larger_than_what_a_socket_holds(three: list[WorkerRpc]) -> None:
    for one in three:
        one.listen({"all": saying("x" * 5_000_000)})

    assert [len(answer) for answer in (await three[0].ask("all")).values()] == [5_000_000] * 2


async def test_many_may_ask_at_once(three: list[WorkerRpc]) -> None:
    for one in three:
        one.listen({"name": saying(one.name)})

    answers = await asyncio.gather(*(one.ask("name") for one in three for _ in range(4)))

    assert all(set(answer.values()) == set(answer) and len(answer) == 2 for answer in answers)


async def test_who_has_no_answer_says_nothing_and_holds_nobody_up(three: list[WorkerRpc]) -> None:
    three[1].listen({"name": failing})
    three[2].listen({"name": saying("here")})

    assert await three[0].ask("name") == {"api-2": None, "checkpoint-1": "here"}


async def test_what_is_asked_of_one_that_starts_again_waits_for_it(three: list[WorkerRpc]) -> None:
    for one in three[:2]:
        one.listen({"name": saying("at once")})
    asked = asyncio.create_task(three[0].ask("name"))
    await three[2].ask("name")  # by when the other question stands with the one that does not listen yet
    three[2].listen({"name": saying("later")})

    assert await asked == {"api-2": "at once", "checkpoint-1": "later"}


async def test_the_only_process_has_nobody_to_ask() -> None:
    alone = WorkerRpc()
    alone.listen({})

    assert (alone.name, await alone.ask("name")) == ("", {})
    alone.end()
