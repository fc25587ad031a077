"""Keeps the data of lmstfy's wire in Redis: tokens, their limits, and names that are too long for a topic.

Redis holds the tokens in clear text, because lmstfy's admin port lists tokens as text, and deletes a token by this
text.
"""

from __future__ import annotations

from collections.abc import Mapping

import orjson

from bridge.model.lmstfy import LmstfyToken, TokenLimit
from bridge.store.calls import Call, plain
from bridge.store.client import Store
from bridge.store.keys import Keys
from bridge.store.replies import binary, flag, maybe, nothing, raw_fields, whole
from bridge.store.scripts import SCRIPTS


class LmstfyStore:
    """The data of lmstfy's wire in one pool. Every method raises StoreUnavailable if Redis does not answer."""

    def __init__(self, store: Store, keys: Keys) -> None:
        self._store = store
        self._keys = keys

    async def add_token(self, token: LmstfyToken, description: str) -> bool:
        """Adds a token with its description. Returns False and changes nothing if the token exists."""
        return flag(await self._store.command("HSETNX", self._tokens_of(token), token.secret, description))

    async def remove_token(self, token: LmstfyToken) -> None:
        await self._store.command("HDEL", self._tokens_of(token), token.secret)

    async def has_token(self, token: LmstfyToken) -> bool:
        return flag(await self._store.command("HEXISTS", self._tokens_of(token), token.secret))

    async def tokens(self, pool: str, namespace: str) -> Mapping[str, str]:
        """Returns the descriptions of a namespace's tokens, by token."""
        return await self._hash(self._keys.lmstfy_tokens(pool, namespace))

    async def add_limit(self, token: LmstfyToken, limit: TokenLimit) -> bool:
        """Adds a token's limit. Returns False and changes nothing if the token has one."""
        return flag(await self._store.command("HSETNX", self._keys.lmstfy_limits, str(token), orjson.dumps(limit)))

    async def put_limit(self, token: LmstfyToken, limit: TokenLimit) -> None:
        await self._store.command("HSET", self._keys.lmstfy_limits, str(token), orjson.dumps(limit))

    async def remove_limit(self, token: LmstfyToken) -> None:
        await self._store.command("HDEL", self._keys.lmstfy_limits, str(token))

    async def limit(self, token: LmstfyToken) -> TokenLimit | None:
        stored = maybe(binary, await self._store.command("HGET", self._keys.lmstfy_limits, str(token)))
        return None if stored is None else TokenLimit(**orjson.loads(stored))

    async def limits(self) -> list[tuple[LmstfyToken, TokenLimit]]:
        stored = await self._hash(self._keys.lmstfy_limits)
        return [
            (LmstfyToken(*token.split("/", 2)), TokenLimit(**orjson.loads(limit))) for token, limit in stored.items()
        ]

    async def take(self, token: LmstfyToken, direction: str, *, limit: int, length_ms: int) -> int:
        """Counts one request in the current window of the token and the direction. `direction`: `produce` or `consume`.
        `limit`: the most requests in a window. `length_ms`: the length of a window.

        Returns the window's end in Unix ms, which `give_back` needs. Returns 0 if the window has reached its limit.
        """
        (ends_ms,) = await self._store.run([self.throttle(token, direction, limit=limit, length_ms=length_ms)])
        return ends_ms

    async def give_back(self, token: LmstfyToken, direction: str, ends_ms: int) -> None:
        """Takes one request off the count, unless its window has ended. `ends_ms`: the window's end in Unix ms, which
        `take` returned."""
        await self._store.run([self.return_unit(token, direction, ends_ms=ends_ms)])

    def throttle(self, token: LmstfyToken, direction: str, *, limit: int, length_ms: int) -> Call[int]:
        return Call(
            SCRIPTS["throttle"], plain(whole), (self._keys.lmstfy_rate(str(token), direction),), (limit, length_ms)
        )

    def return_unit(self, token: LmstfyToken, direction: str, *, ends_ms: int) -> Call[None]:
        return Call(SCRIPTS["give_back"], plain(nothing), (self._keys.lmstfy_rate(str(token), direction),), (ends_ms,))

    async def keep_name(self, topic: str, namespace: str, queue: str) -> None:
        await self._store.command("HSET", self._keys.lmstfy_names, topic, orjson.dumps([namespace, queue]))

    async def names(self) -> Mapping[str, tuple[str, str]]:
        """Returns namespace and queue by topic, for topics whose names contain a shortened namespace or queue."""
        stored = await self._hash(self._keys.lmstfy_names)
        return {topic: tuple(orjson.loads(names)) for topic, names in stored.items()}

    def _tokens_of(self, token: LmstfyToken) -> str:
        return self._keys.lmstfy_tokens(token.pool, token.namespace)

    async def _hash(self, key: str) -> dict[str, str]:
        stored = raw_fields(await self._store.command("HGETALL", key))
        return {field.decode(errors="replace"): value.decode(errors="replace") for field, value in stored.items()}
