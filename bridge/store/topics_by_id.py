"""In which topics there may be a message of an id: for wires whose ids are of no topic.

A note is made before the message is sent, and no message is found by it alone, so a note too many is no fault.
"""

from __future__ import annotations

from bridge.store.calls import Call
from bridge.store.client import Store
from bridge.store.keys import Keys
from bridge.store.scripts import SCRIPTS


class TopicsById:
    """Everything raises StoreUnavailable."""

    def __init__(self, store: Store, keys: Keys) -> None:
        self._store = store
        self._keys = keys

    async def note(self, message_id: str, topic: str, *, keep_ms: int) -> list[str]:
        """Notes the topic for so long at the least; all topics that are noted."""
        (topics,) = await self._store.run([self.place(message_id, topic, keep_ms=keep_ms)])
        return sorted(one.decode() for one in topics)

    async def of(self, message_id: str) -> list[str]:
        topics = await self._store.command("SMEMBERS", self._keys.place(message_id))
        return sorted(one.decode() for one in topics)

    async def shorten(self, message_id: str, *, keep_ms: int) -> None:
        """Keeps the note for so long only: nothing of the id lives any more."""
        await self._store.command("PEXPIRE", self._keys.place(message_id), keep_ms)

    def place(self, message_id: str, topic: str, *, keep_ms: int) -> Call:
        return Call(SCRIPTS["place"], (self._keys.place(message_id),), (topic, keep_ms))
