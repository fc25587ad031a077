"""Stores in which topics an id may be, for wires whose ids are unique over all topics.

A wire stores a note of the topic before it sends the message. A note does not prove that the message exists, so a
superfluous note does no harm.
"""

from __future__ import annotations

from bridge.store.calls import Call, plain
from bridge.store.client import Store
from bridge.store.keys import Keys
from bridge.store.replies import texts
from bridge.store.scripts import SCRIPTS


class TopicsById:
    """The notes of one pool: each says that an id may have a message in a topic. Every method raises StoreUnavailable
    if Redis does not answer."""

    def __init__(self, store: Store, keys: Keys) -> None:
        self._store = store
        self._keys = keys

    async def note(self, message_id: str, topic: str, *, keep_ms: int) -> list[str]:
        """Stores in Redis, for at least `keep_ms`, that the id may have a message in the topic. Returns all topics
        stored for the id, sorted."""
        (topics,) = await self._store.run([self.place(message_id, topic, keep_ms=keep_ms)])
        return sorted(topics)

    async def of(self, message_id: str) -> list[str]:
        """Returns the topics stored for the id."""
        return sorted(texts(await self._store.command("SMEMBERS", self._keys.place(message_id))))

    async def shorten(self, message_id: str, *, keep_ms: int) -> None:
        """Lets the id's notes expire after `keep_ms`, because no living message has the id any more."""
        await self._store.command("PEXPIRE", self._keys.place(message_id), keep_ms)

    def place(self, message_id: str, topic: str, *, keep_ms: int) -> Call[list[str]]:
        return Call(SCRIPTS["place"], plain(texts), (self._keys.place(message_id),), (topic, keep_ms))
