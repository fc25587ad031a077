"""Reads the list of topics: a send, or a release, puts its topic on the list, and a removal takes it off."""

from __future__ import annotations

from collections.abc import Collection

from bridge.model.errors import StoreUnavailable
from bridge.store.client import Store
from bridge.store.keys import Keys
from bridge.store.replies import flag, several, texts


class TopicList:
    """The list of one pool. Every method raises StoreUnavailable if Redis does not answer."""

    def __init__(self, store: Store, keys: Keys) -> None:
        self._store = store
        self._key = keys.topics

    async def names(self) -> list[str]:
        """Returns the names of all topics on the list, sorted."""
        return sorted(texts(await self._store.command("SMEMBERS", self._key)))

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
