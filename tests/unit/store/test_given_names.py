"""Tests when the given names of topics are written, and that they go with their topics."""

from __future__ import annotations

from typing import Any

import pytest

from bridge.store.kept import given_names
from bridge.store.kept.given_names import GivenNames
from bridge.store.keys import Keys

KEYS = Keys("delay")


class Redis:
    def __init__(self) -> None:
        self.commands: list[tuple[Any, ...]] = []

    async def command(self, *words: Any) -> None:
        self.commands.append(words)


async def test_a_name_is_written_once_a_minute_and_again_after_its_topic_was_removed() -> None:
    redis = Redis()
    names = GivenNames(redis, KEYS)  # type: ignore[arg-type]
    for _ in range(3):
        await names.keep("a-b.digest", "a b")
        await names.keep("plain", "plain")
    await names.remove("a-b.digest")
    await names.keep("a-b.digest", "a b")
    written = ("HSET", KEYS.given_names, "a-b.digest", "a b")
    assert redis.commands == [written, ("HDEL", KEYS.given_names, "a-b.digest"), written]


async def test_a_process_remembers_a_limited_number_of_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(given_names, "_MOST_KEPT", 2)
    names = GivenNames(Redis(), KEYS)  # type: ignore[arg-type]
    for number in range(5):
        await names.keep(f"t-{number}.digest", f"t {number}")
    assert len(names._kept_s) == 2
