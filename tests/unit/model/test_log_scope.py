"""Tests for which request the tasks of a call work."""

from __future__ import annotations

import asyncio

from bridge.model import log_scope


async def named() -> str:
    return log_scope.current()


async def of_a_call() -> None:
    log_scope.enter("r-1")
    assert await asyncio.create_task(named()) == "r-1"
    assert await log_scope.shared_task(named()) == ""
    with log_scope.shared():
        assert await asyncio.create_task(named()) == ""
    assert log_scope.current() == "r-1"


async def test_tasks_of_a_call_name_its_request_and_shared_ones_none() -> None:
    await asyncio.create_task(of_a_call())
    assert log_scope.current() == log_scope.NOBODY
