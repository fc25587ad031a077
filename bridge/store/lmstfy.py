"""What the lmstfy wire keeps in Redis: its tokens, their limits, and names that are too long for a topic.

Tokens lie here in clear, as its admin port lists them in clear and deletes them by what it listed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import orjson

from bridge.store.calls import Call
from bridge.store.client import Store
from bridge.store.keys import Keys
from bridge.store.scripts import SCRIPTS


@dataclass(frozen=True, kw_only=True, slots=True)
class Limit:
    """Requests in each window of `interval` seconds: `read` are consumes, `write` are publishes. 0 is no limit."""

    read: int
    write: int
    interval: int


@dataclass(frozen=True, slots=True)
class Holder:
    """A token, with what it belongs to."""

    pool: str
    namespace: str
    token: str

    def __str__(self) -> str:
        return f"{self.pool}/{self.namespace}/{self.token}"


class LmstfyStore:
    """Everything raises StoreUnavailable."""

    def __init__(self, store: Store, keys: Keys) -> None:
        self._store = store
        self._keys = keys

    async def add_token(self, holder: Holder, description: str) -> bool:
        """False: there is such a token, which stays as it is."""
        return bool(await self._store.command("HSETNX", self._tokens_of(holder), holder.token, description))

    async def remove_token(self, holder: Holder) -> None:
        await self._store.command("HDEL", self._tokens_of(holder), holder.token)

    async def has_token(self, holder: Holder) -> bool:
        return bool(await self._store.command("HEXISTS", self._tokens_of(holder), holder.token))

    async def tokens(self, pool: str, namespace: str) -> Mapping[str, str]:
        """The descriptions by token."""
        return await self._hash(self._keys.lmstfy_tokens(pool, namespace))

    async def add_limit(self, holder: Holder, limit: Limit) -> bool:
        """False: there is one, which stays as it is."""
        return bool(await self._store.command("HSETNX", self._keys.lmstfy_limits, str(holder), orjson.dumps(limit)))

    async def put_limit(self, holder: Holder, limit: Limit) -> None:
        await self._store.command("HSET", self._keys.lmstfy_limits, str(holder), orjson.dumps(limit))

    async def remove_limit(self, holder: Holder) -> None:
        await self._store.command("HDEL", self._keys.lmstfy_limits, str(holder))

    async def limit(self, holder: Holder) -> Limit | None:
        stored = await self._store.command("HGET", self._keys.lmstfy_limits, str(holder))
        return None if stored is None else Limit(**orjson.loads(stored))

    async def limits(self) -> list[tuple[Holder, Limit]]:
        stored = await self._hash(self._keys.lmstfy_limits)
        return [(Holder(*holder.split("/", 2)), Limit(**orjson.loads(limit))) for holder, limit in stored.items()]

    async def take(self, holder: Holder, direction: str, *, limit: int, length_ms: int) -> int:
        """The window's end in Unix ms, for `give_back`; 0: the limit is reached."""
        (ends_ms,) = await self._store.run([self.throttle(holder, direction, limit=limit, length_ms=length_ms)])
        return int(ends_ms)

    async def give_back(self, holder: Holder, direction: str, ends_ms: int) -> None:
        await self._store.run([self.return_unit(holder, direction, ends_ms=ends_ms)])

    def throttle(self, holder: Holder, direction: str, *, limit: int, length_ms: int) -> Call:
        return Call(SCRIPTS["throttle"], (self._keys.lmstfy_rate(str(holder), direction),), (limit, length_ms))

    def return_unit(self, holder: Holder, direction: str, *, ends_ms: int) -> Call:
        return Call(SCRIPTS["give_back"], (self._keys.lmstfy_rate(str(holder), direction),), (ends_ms,))

    async def keep_name(self, topic: str, namespace: str, queue: str) -> None:
        await self._store.command("HSET", self._keys.lmstfy_names, topic, orjson.dumps([namespace, queue]))

    async def names(self) -> Mapping[str, tuple[str, str]]:
        """Namespace and queue by topic, where they are not the topic's own parts."""
        stored = await self._hash(self._keys.lmstfy_names)
        return {topic: tuple(orjson.loads(names)) for topic, names in stored.items()}

    def _tokens_of(self, holder: Holder) -> str:
        return self._keys.lmstfy_tokens(holder.pool, holder.namespace)

    async def _hash(self, key: str) -> dict[str, str]:
        stored: Mapping[bytes, bytes] = await self._store.command("HGETALL", key)
        return {field.decode(errors="replace"): value.decode(errors="replace") for field, value in stored.items()}
