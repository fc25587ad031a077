"""Counts the topics that each token with a limit has made, over all processes together."""

from __future__ import annotations

from typing import Final

from bridge.store.calls import Call, plain
from bridge.store.client import Store
from bridge.store.keys import Keys
from bridge.store.replies import whole
from bridge.store.scripts import SCRIPTS

MOST: Final = 1_000
"""The largest limit on the topics that a token makes. A count reads each topic that the token has made, and blocks the
other clients of Redis meanwhile."""
_HOLD_MS: Final = 60_000  # longer than any declare of a topic's queues
_KEEP_MS: Final = 365 * 86_400_000


class MadeTopics:
    """Counts the topics that each token has made, in the Redis of one pool."""

    def __init__(self, store: Store, keys: Keys) -> None:
        self._store = store
        self._keys = keys

    async def count(self, token_id: str, topic: str, limit: int) -> int:
        """Counts a topic that a token is about to make. Returns 0 if the token may use the topic: the topic exists, or
        the limit allows one more. Otherwise counts nothing, and returns how many topics of the token count already.

        A counted topic that is not made within a minute no longer counts.

        Raises:
            StoreUnavailable: the topic may have been counted.
        """
        (taken,) = await self._store.run([self.call(token_id, topic, limit)])
        return taken

    def call(self, token_id: str, topic: str, limit: int, *, hold_ms: int = _HOLD_MS) -> Call[int]:
        """Builds the script call of `count`. `hold_ms`: how long a topic counts that is not made; only tests give
        it."""
        keys = (self._keys.topics, self._keys.made_topics(token_id))
        return Call(SCRIPTS["count_topic"], plain(whole), keys, (topic, limit, MOST, hold_ms, _KEEP_MS))
