"""Tests the reading of whole bodies."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator

import pytest
from starlette.requests import ClientDisconnect
from starlette.types import Message, Receive

from bridge.http.bodies import body_of

PART_BYTES = 64 * 1024
PARTS = 64


def part(body: bytes, *, more: bool) -> Message:
    return {"type": "http.request", "body": body, "more_body": more}


def receiving(messages: Iterator[Message]) -> Receive:
    async def receive() -> Message:
        return next(messages)

    return receive


@pytest.mark.parametrize("parts", [[b""], [b"one"], [b"one", b"", b"two"]])
async def test_body_is_all_parts_in_order(parts: list[bytes]) -> None:
    messages = (part(body, more=number < len(parts)) for number, body in enumerate(parts, 1))
    assert await body_of(receiving(messages)) == b"".join(parts)


@pytest.mark.parametrize("parts", [[], [b"half"]])
async def test_client_that_leaves_before_the_end_is_told(parts: list[bytes]) -> None:
    messages = iter([*(part(body, more=True) for body in parts), {"type": "http.disconnect"}])
    with pytest.raises(ClientDisconnect):
        await body_of(receiving(messages))


async def test_body_in_many_parts_takes_its_memory_once() -> None:
    messages = (part(bytes(PART_BYTES), more=number < PARTS) for number in range(1, PARTS + 1))
    tracemalloc.start()
    try:
        body = await body_of(receiving(messages))
        _, most_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(body) == PARTS * PART_BYTES
    assert most_bytes < 1.5 * len(body)
