"""Reads and adds fields of the Redis hashes that hold subscriptions, tokens, names and limits."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from secrets import token_hex
from typing import Final, NamedTuple

from bridge.store.client import Store
from bridge.store.keys import Keys
from bridge.store.replies import fields, flag, texts

_VERSIONS: Final = {"tokens": "version", "subscriptions": "/version"}
"""For each hash, the field that changes with every write of the hash. When it has changed, bridges read the hash
again."""

_HASHES: Final = ("subscriptions", "tokens", "names", "lmstfy/limits", "lmstfy/names")


class Field(NamedTuple):
    """One field of a hash. `of`: the hash's key without BRIDGE_REDIS_PREFIX, such as `tokens`."""

    of: str
    name: str
    value: str


def is_kept(field: Field) -> bool:
    """Whether `KeptFields.all` can yield the field: its hash is known, and the field is not the version of the hash."""
    of = field.of.split("/")
    known = field.of in _HASHES or (of[:2] == ["lmstfy", "tokens"] and len(of) == 4 and all(of))
    return known and field.name != _VERSIONS.get(field.of)


class KeptFields:
    """Reads and adds fields of one pool's Redis hashes: subscriptions, tokens, given names, and lmstfy's tokens, limits
    and names. Every method raises StoreUnavailable if Redis does not answer."""

    def __init__(self, store: Store, keys: Keys) -> None:
        self._store = store
        self._keys = keys

    async def all(self, namespaces: Collection[str], pool: str) -> AsyncIterator[Field]:
        """Yields all fields except the version of each hash. `namespaces` and `pool` select the tokens of lmstfy's
        wire."""
        of_lmstfy = [self._keys.lmstfy_tokens(pool, namespace) for namespace in sorted(namespaces)]
        plain = [self._keys.subscriptions, self._keys.tokens, self._keys.given_names]
        for key in [*plain, self._keys.lmstfy_limits, self._keys.lmstfy_names, *of_lmstfy]:
            of = key.removeprefix(f"{self._keys.prefix}/")
            for name, value in fields(await self._store.command("HGETALL", key)).items():
                if name != _VERSIONS.get(of):
                    yield Field(of, name, value.decode())

    async def limited_namespaces(self) -> set[str]:
        """Returns the namespaces that have a limit on lmstfy's wire."""
        limits = await self._store.command("HKEYS", self._keys.lmstfy_limits)
        return {limit.split("/", 2)[1] for limit in texts(limits)}

    async def add(self, field: Field) -> bool:
        """Adds the field. Returns False and changes nothing if the hash has a field of this name."""
        key = f"{self._keys.prefix}/{field.of}"
        added = flag(await self._store.command("HSETNX", key, field.name, field.value))
        if added and (version := _VERSIONS.get(field.of)):
            await self._store.command("HSET", key, version, token_hex(8))
        return added
