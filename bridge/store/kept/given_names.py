"""Keeps the names that clients of a wire gave to topics. A topic's own name contains a digest, so lists of the wire
show the given name."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from time import monotonic
from typing import Final

from bridge.model.recent import Recent
from bridge.store.client import Store
from bridge.store.keys import Keys
from bridge.store.replies import fields

_AGAIN_S: Final = 60.0
_MOST_KEPT: Final = 20_000


class GivenNames:
    """The given names of one pool. Every method raises StoreUnavailable if Redis does not answer."""

    def __init__(self, store: Store, keys: Keys) -> None:
        self._store = store
        self._key = keys.given_names
        self._kept_s: Recent[str, float] = Recent(_MOST_KEPT)  # by topic: when this process stored its name

    async def keep(self, topic: str, name: str) -> None:
        """Stores the name that a client gave for a topic, unless it equals the topic.

        For a minute after it stored a name, this process stores none of the same topic. Later it stores the name again,
        as Redis may have lost it.
        """
        if topic != name and monotonic() - (self._kept_s.get(topic) or -inf) > _AGAIN_S:
            await self._store.command("HSET", self._key, topic, name)
            self._kept_s.note(topic, monotonic())

    async def remove(self, topic: str) -> None:
        """Removes the stored name of a topic."""
        await self._store.command("HDEL", self._key, topic)
        self._kept_s.forget(topic)

    async def all(self) -> Mapping[str, str]:
        """Returns the names that clients gave, by topic."""
        stored = fields(await self._store.command("HGETALL", self._key))
        return {topic: name.decode() for topic, name in stored.items()}
