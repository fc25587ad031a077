"""Tests time limits on calls, while the event loop runs and after it stood still."""

from __future__ import annotations

import asyncio
import socket
import time

import pytest

from bridge.model.time_limit import STALLED_S, TimeLimit

LIMIT_S = 0.1
STALL_S = LIMIT_S + STALLED_S + 0.2


async def test_limit_that_passes_is_a_timeout_error() -> None:
    began_s = time.monotonic()
    with pytest.raises(TimeoutError):
        async with TimeLimit(LIMIT_S):
            await asyncio.Event().wait()
    assert time.monotonic() - began_s >= LIMIT_S


async def test_answers_that_lay_unread_while_the_loop_stood_still_are_taken() -> None:
    """The second round trip begins after the stall."""
    ours, theirs = socket.socketpair()
    with theirs:
        reader, writer = await asyncio.open_connection(sock=ours)
        async with TimeLimit(LIMIT_S):
            theirs.send(b"1")
            time.sleep(STALL_S)  # noqa: ASYNC251 - this is the stall
            assert await reader.readexactly(1) == b"1"
            asyncio.get_running_loop().call_later(STALLED_S / 10, theirs.send, b"2")
            assert await reader.readexactly(1) == b"2"
        writer.close()
        await writer.wait_closed()


async def test_call_without_an_answer_ends_after_a_stall_too() -> None:
    async def stall() -> None:
        async with TimeLimit(LIMIT_S):
            time.sleep(STALL_S)  # noqa: ASYNC251 - this is the stall
            await asyncio.Event().wait()

    with pytest.raises(TimeoutError):
        await stall()
