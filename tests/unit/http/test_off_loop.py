"""Tests that large bodies are parsed in a thread of their own, and small ones are not."""

from __future__ import annotations

import threading

import pytest

from bridge.http import off_loop


@pytest.mark.parametrize(("size_bytes", "apart"), [(0, False), (256 * 1024, False), (256 * 1024 + 1, True)])
async def test_only_large_bodies_are_parsed_in_a_thread(size_bytes: int, apart: bool) -> None:
    def parse(document: bytes) -> tuple[int, str]:
        return len(document), threading.current_thread().name

    length, thread = await off_loop.parsed(parse, bytes(size_bytes))

    assert (length, thread != threading.current_thread().name) == (size_bytes, apart)


async def test_errors_of_the_thread_reach_the_caller() -> None:
    with pytest.raises(ValueError, match="invalid literal"):
        await off_loop.parsed(int, b"x" * 300_000)
