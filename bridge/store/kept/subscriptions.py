"""Keeps subscriptions in Redis, their counters, and the pauses of receivers, which all processes obey.

All subscriptions are in one hash, as JSON by topic. The field `/ended/<id>` says when a receiver ended a subscription,
and `/version` changes with every write. No topic begins with a slash.
"""

from __future__ import annotations

from collections.abc import Mapping
from secrets import token_hex
from typing import Final

import orjson

from bridge.store.client import Store
from bridge.store.keys import Keys
from bridge.store.replies import binary, fields, flag, maybe, several, whole

_VERSION: Final = "/version"
_TALLY_MS: Final = 30 * 86_400_000


class StoredSubscriptions:
    """The subscriptions of one pool. Each method raises StoreUnavailable if Redis does not answer. `own_id` is the id
    of a subscription; a subscription that replaces it gets another id. `receiver` identifies a receiver of the topic:
    the subscription's id, or a digest of the URL's origin if messages name their URLs."""

    def __init__(self, store: Store, keys: Keys) -> None:
        self._store = store
        self._keys = keys

    async def version(self) -> bytes | None:
        return maybe(binary, await self._store.command("HGET", self._keys.subscriptions, _VERSION))

    async def all(self) -> tuple[Mapping[str, bytes], Mapping[str, int]]:
        """Returns two mappings: the subscriptions as JSON by topic, and the end moments of ended subscriptions in Unix
        ms by id."""
        stored = fields(await self._store.command("HGETALL", self._keys.subscriptions))
        ended = {
            field.removeprefix("/ended/"): int(value) for field, value in stored.items() if field.startswith("/ended/")
        }
        return {field: value for field, value in stored.items() if not field.startswith("/")}, ended

    async def get(self, topic: str) -> bytes | None:
        return maybe(binary, await self._store.command("HGET", self._keys.subscriptions, topic))

    async def ended_ms(self, own_id: str) -> int:
        return maybe(whole, await self._store.command("HGET", self._keys.subscriptions, f"/ended/{own_id}")) or 0

    async def is_current(self, topic: str, own_id: str) -> bool:
        """Returns whether `own_id` is the id of the topic's subscription, and this subscription has not ended."""
        key = self._keys.subscriptions
        stored, ended = several(await self._store.command("HMGET", key, topic, f"/ended/{own_id}"))
        return stored is not None and ended is None and orjson.loads(binary(stored))["id"] == own_id

    async def put(self, topic: str, subscription: bytes) -> None:
        gone = await self.get(topic)
        key = self._keys.subscriptions
        await self._store.command("HSET", key, topic, subscription, _VERSION, token_hex(8))
        await self._forget(topic, gone)

    async def add(self, topic: str, subscription: bytes) -> bool:
        """Adds a subscription. Returns False and changes nothing if the topic has one."""
        added = flag(await self._store.command("HSETNX", self._keys.subscriptions, topic, subscription))
        if added:
            await self._store.command("HSET", self._keys.subscriptions, _VERSION, token_hex(8))
        return added

    async def remove(self, topic: str) -> bool:
        """Removes the subscription. Returns whether there was one."""
        gone = await self.get(topic)
        key = self._keys.subscriptions
        await self._store.commands([("HDEL", key, topic), ("HSET", key, _VERSION, token_hex(8))])
        await self._forget(topic, gone)
        return gone is not None

    async def end(self, own_id: str, now_ms: int) -> None:
        await self._store.command("HSET", self._keys.subscriptions, f"/ended/{own_id}", now_ms, _VERSION, token_hex(8))

    async def hold(self, topic: str, receiver: str, for_ms: int) -> None:
        """Begins a pause of the receiver: no process calls it for `for_ms`."""
        await self._store.command("SET", self._keys.push_hold(topic, receiver), 1, "PX", for_ms)

    async def held_ms(self, topic: str, receiver: str) -> int:
        """Returns how many ms the receiver's pause still lasts; 0: there is no pause."""
        return max(0, whole(await self._store.command("PTTL", self._keys.push_hold(topic, receiver))))

    async def tell(self, topic: str, own_id: str, counter: str, **latest: str | int | bytes) -> None:
        """Adds 1 to a counter of the subscription, such as `delivered`, and sets the fields in `latest`."""
        key = self._keys.push_tally(topic, own_id)
        flat = [part for field in latest.items() for part in field]
        await self._store.commands([("HINCRBY", key, counter, 1), ("HSET", key, *flat), ("PEXPIRE", key, _TALLY_MS)])

    async def tally(self, topic: str, own_id: str) -> Mapping[str, str]:
        stored = fields(await self._store.command("HGETALL", self._keys.push_tally(topic, own_id)))
        return {field: value.decode(errors="replace") for field, value in stored.items()}

    async def _forget(self, topic: str, gone: bytes | None) -> None:
        if gone is not None:
            own_id = orjson.loads(gone)["id"]
            await self._store.command("HDEL", self._keys.subscriptions, f"/ended/{own_id}")
            await self._store.command("DEL", self._keys.push_tally(topic, own_id))
            await self._store.command("DEL", self._keys.push_hold(topic, own_id))
