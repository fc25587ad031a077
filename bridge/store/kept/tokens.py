"""Keeps tokens in Redis: JSON by id, and a version that changes with every write."""

from __future__ import annotations

from collections.abc import Iterable
from secrets import token_hex

from bridge.store.calls import Call, plain
from bridge.store.client import Store
from bridge.store.keys import Keys
from bridge.store.replies import binaries, binary, flag, maybe
from bridge.store.scripts import SCRIPTS


class StoredTokens:
    """The tokens of HTTP clients in Redis. Each method raises StoreUnavailable if Redis does not answer."""

    def __init__(self, store: Store, keys: Keys) -> None:
        self._store = store
        self._key = keys.tokens

    async def version(self) -> bytes | None:
        return maybe(binary, await self._store.command("HGET", self._key, "version"))

    async def all(self) -> Iterable[bytes]:
        stored = binaries(await self._store.command("HVALS", self._key))
        return [value for value in stored if value.startswith(b"{")]  # the version is not an object

    async def put(self, token_id: str, token: bytes) -> None:
        await self._store.run([self.call(token_id, token)])

    async def remove(self, token_id: str) -> bool:
        """Removes the token. Returns whether there was one."""
        (removed,) = await self._store.run([self.call(token_id, b"")])
        return removed

    def call(self, token_id: str, token: bytes) -> Call[bool]:
        return Call(SCRIPTS["token"], plain(flag), (self._key,), (token_id, token, token_hex(8)))
