"""Tests how long a read waits for topics that RabbitMQ has and the list has not."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import AbstractContextManager
from types import SimpleNamespace
from typing import Any

import pytest

from bridge.service import known_topics
from bridge.service.known_topics import KnownTopics
from bridge.store.keys import Keys

TOPICS = ["a", "b", "c"]


class Servers:
    """RabbitMQ has every topic, and the list in Redis has none."""

    async def command(self, *words: Any) -> list[int]:
        return [0] * len(words[2:])

    def has_topic(self, topic: str) -> bool:
        return False

    async def finds_topic(self, topic: str) -> bool:
        return True

    def forget_topics(self, topics: Collection[str]) -> None: ...


async def test_topics_that_are_not_listed_are_awaited_together_and_once(monkeypatch: pytest.MonkeyPatch) -> None:
    servers: Any = Servers()
    context: Any = SimpleNamespace(
        store=servers, records=SimpleNamespace(keys=Keys("delay")), broker=SimpleNamespace(declared=servers)
    )
    known = KnownTopics(context)
    awaiting, awaited = known.awaiting, list[Collection[str]]()

    def noting(missing: Collection[str]) -> AbstractContextManager[Any]:
        awaited.append(set(missing))
        return awaiting(missing)

    monkeypatch.setattr(known, "awaiting", noting)
    monkeypatch.setattr(known_topics, "_DECLARED_WITHIN_S", 0.01)

    assert await known.of(TOPICS) == TOPICS
    assert await known.of(TOPICS) == TOPICS
    assert awaited == [set(TOPICS)]
    known.forget(["b"])
    assert await known.of(TOPICS) == TOPICS
    assert awaited == [set(TOPICS), {"b"}]
