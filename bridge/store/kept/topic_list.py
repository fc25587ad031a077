"""Reads the list of topics: a send, or a release, puts its topic on the list, and a removal takes it off.

For two seconds after a removal, another process may still believe that the topic is on the list. Then it sends to the
topic without putting it on the list. So a removal leaves a mark for a minute or longer. The bridge looks for later
messages of marked topics, and puts topics with messages on the list again.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from math import ceil, floor
from typing import Final

from bridge.model.errors import StoreUnavailable
from bridge.store.client import Store
from bridge.store.keys import Keys
from bridge.store.replies import flag, several, texts

_MARKED_MS: Final = 60_000
"""How long at least a removal leaves its mark. Longer than a process remembers a topic, and a call may last."""


@dataclass(frozen=True, slots=True)
class Listed:
    """The list of topics as read at one moment. `names`: sorted. `marked`: topics with the mark of a removal, also
    those that are on the list again."""

    names: list[str]
    marked: list[str]


class TopicList:
    """The list of one pool's topics, in Redis. Every method raises StoreUnavailable if Redis does not answer."""

    def __init__(self, store: Store, keys: Keys) -> None:
        self._store = store
        self._key = keys.topics
        self._removed = keys.removed_topics

    async def names(self) -> list[str]:
        """Returns the names of all topics on the list, sorted."""
        return sorted(texts(await self._store.command("SMEMBERS", self._key)))

    async def read(self) -> Listed:
        """Returns the topics on the list, and the topics with the mark of a removal, in one round trip."""
        on_list, marked = await self._store.commands(
            [("SMEMBERS", self._key), ("ZRANGEBYSCORE", self._removed, "-inf", "+inf")]
        )
        return Listed(sorted(texts(on_list)), texts(marked))

    async def remove(self, topic: str) -> None:
        """Takes the topic off the list, and marks it as removed."""
        await self._store.learn_clock()
        # The mark comes first: without it nobody would look for later messages.
        await self._store.command("ZADD", self._removed, ceil(self._store.clock.now_ms()), topic)
        await self._store.command("SREM", self._key, topic)

    async def forget_removed(self, looked_ms: float) -> None:
        """Deletes the marks of removals that were at least a minute old at `looked_ms`. `looked_ms`: when the caller
        began to look for later messages of these topics, in Unix ms by Redis' clock."""
        await self._store.command("ZREMRANGEBYSCORE", self._removed, "-inf", floor(looked_ms) - _MARKED_MS)

    async def listed(self, topics: Collection[str]) -> set[str]:
        """Returns the given topics that are on the list."""
        topics = list(topics)
        found = several(await self._store.command("SMISMEMBER", self._key, *topics))
        return {topic for topic, is_listed in zip(topics, found, strict=True) if flag(is_listed)}

    async def not_removed(self, topics: Collection[str]) -> Collection[str]:
        """Returns the given topics that are on the list. If only the list's server is away and other servers answer,
        returns all given topics."""
        try:
            return await self.listed(topics)
        except StoreUnavailable as error:
            if not error.partly:
                raise
            return topics
