"""Subscriptions as Redis keeps them, and what the processes that serve one tell each other and count.

All are in one hash: by topic as JSON, `/ended/<id>` where a receiver has ended one, and `/version`, another one after
every change. No topic begins with a slash.
"""

from __future__ import annotations

from collections.abc import Mapping
from secrets import token_hex
from typing import Any, Final

import orjson

from bridge.store.client import Store
from bridge.store.keys import Keys

_VERSION: Final = "/version"
_TALLY_MS: Final = 30 * 86_400_000


class StoredSubscriptions:
    """Everything raises StoreUnavailable. `own_id` is a subscription's, which is another one after it was replaced."""

    def __init__(self, store: Store, keys: Keys) -> None:
        self._store = store
        self._keys = keys

    async def version(self) -> bytes | None:
        version: bytes | None = await self._store.command("HGET", self._keys.subscriptions, _VERSION)
        return version

    async def all(self) -> tuple[Mapping[str, bytes], Mapping[str, int]]:
        """By topic; and when those that have ended did, by their ids."""
        stored: Mapping[bytes, bytes] = await self._store.command("HGETALL", self._keys.subscriptions)
        fields = {field.decode(): value for field, value in stored.items()}
        ended = {
            field.removeprefix("/ended/"): int(value) for field, value in fields.items() if field.startswith("/ended/")
        }
        return {field: value for field, value in fields.items() if not field.startswith("/")}, ended

    async def get(self, topic: str) -> bytes | None:
        stored: bytes | None = await self._store.command("HGET", self._keys.subscriptions, topic)
        return stored

    async def ended_ms(self, own_id: str) -> int:
        return int(await self._store.command("HGET", self._keys.subscriptions, f"/ended/{own_id}") or 0)

    async def put(self, topic: str, subscription: bytes) -> None:
        gone = await self.get(topic)
        key = self._keys.subscriptions
        await self._store.command("HSET", key, topic, subscription, _VERSION, token_hex(8))
        await self._forget(topic, gone)

    async def add(self, topic: str, subscription: bytes) -> bool:
        """False: there is one, which stays as it is."""
        added = bool(await self._store.command("HSETNX", self._keys.subscriptions, topic, subscription))
        if added:
            await self._store.command("HSET", self._keys.subscriptions, _VERSION, token_hex(8))
        return added

    async def remove(self, topic: str) -> bool:
        """Whether there was one."""
        gone = await self.get(topic)
        key = self._keys.subscriptions
        await self._store.commands([("HDEL", key, topic), ("HSET", key, _VERSION, token_hex(8))])
        await self._forget(topic, gone)
        return gone is not None

    async def end(self, own_id: str, now_ms: int) -> None:
        await self._store.command("HSET", self._keys.subscriptions, f"/ended/{own_id}", now_ms, _VERSION, token_hex(8))

    async def hold(self, topic: str, receiver: str, for_ms: int) -> None:
        """Has every process leave the receiver alone for so long."""
        await self._store.command("SET", self._keys.push_hold(topic, receiver), 1, "PX", for_ms)

    async def held_ms(self, topic: str, receiver: str) -> int:
        """How long it is still to be left alone."""
        return max(0, int(await self._store.command("PTTL", self._keys.push_hold(topic, receiver))))

    async def tell(self, topic: str, own_id: str, counter: str, **fields: Any) -> None:
        """Counts one, and keeps the fields in place of those of before."""
        key = self._keys.push_tally(topic, own_id)
        flat = [part for field in fields.items() for part in field]
        await self._store.commands([("HINCRBY", key, counter, 1), ("HSET", key, *flat), ("PEXPIRE", key, _TALLY_MS)])

    async def tally(self, topic: str, own_id: str) -> Mapping[str, str]:
        stored: Mapping[bytes, bytes] = await self._store.command("HGETALL", self._keys.push_tally(topic, own_id))
        return {field.decode(): value.decode(errors="replace") for field, value in stored.items()}

    async def _forget(self, topic: str, gone: bytes | None) -> None:
        if gone is not None:
            own_id = orjson.loads(gone)["id"]
            await self._store.command("HDEL", self._keys.subscriptions, f"/ended/{own_id}")
            await self._store.command("DEL", self._keys.push_tally(topic, own_id))
            await self._store.command("DEL", self._keys.push_hold(topic, own_id))
