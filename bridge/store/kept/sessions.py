"""Keeps the sessions of browsers in Redis: the hash of each session's secret, and the moment when the session ends."""

from __future__ import annotations

from typing import Final

from bridge.store.client import Store
from bridge.store.keys import Keys
from bridge.store.replies import number

MOST: Final = 20
"""The most sessions of one token. A further session removes the one that would end first."""

LIFE_MS: Final = 12 * 3_600_000
"""The longest life of a session, 12 hours."""


class StoredSessions:
    """The sessions of all tokens. Each token has a sorted set: the hashes of its sessions' secrets, by the moments when
    the sessions end. Each method raises StoreUnavailable if Redis does not answer. Moments are Unix ms by Redis'
    clock."""

    def __init__(self, store: Store, keys: Keys) -> None:
        self._store = store
        self._keys = keys

    async def add(self, token_id: str, sha256: str, until_ms: int | None) -> int:
        """Adds a session, and returns its end in Unix ms: `until_ms`, but at most `LIFE_MS` from now. `until_ms` None:
        the session lasts for `LIFE_MS`. `sha256`: the hash of the session's secret."""
        key, now_ms = self._keys.sessions(token_id), await self._now_ms()
        ends_ms = min(now_ms + LIFE_MS, until_ms or now_ms + LIFE_MS)
        commands: list[tuple[str | int, ...]]
        commands = [("ZREMRANGEBYSCORE", key, "-inf", now_ms), ("ZADD", key, ends_ms, sha256)]
        commands += [("ZREMRANGEBYRANK", key, 0, -MOST - 1), ("PEXPIRE", key, LIFE_MS)]
        await self._store.commands(commands)
        return ends_ms

    async def lives(self, token_id: str, sha256: str) -> bool:
        """Returns whether the session exists and has not ended."""
        ends_ms = await self._store.command("ZSCORE", self._keys.sessions(token_id), sha256)
        return ends_ms is not None and number(ends_ms) > await self._now_ms()

    async def remove(self, token_id: str, sha256: str) -> None:
        await self._store.command("ZREM", self._keys.sessions(token_id), sha256)

    async def _now_ms(self) -> int:
        if not self._store.clock.known:
            await self._store.learn_clock()
        return int(self._store.clock.now_ms())
