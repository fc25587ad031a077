"""Keeps each topic's policy in Redis, as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any

import orjson

from bridge.model.values import Backoff, Policy, Release
from bridge.store.calls import Call, plain
from bridge.store.client import Store
from bridge.store.keys import Keys
from bridge.store.replies import binary, flag, maybe
from bridge.store.scripts import SCRIPTS


class StoredPolicies:
    """The policies of topics in Redis. Each method raises StoreUnavailable if Redis does not answer."""

    def __init__(self, store: Store, keys: Keys) -> None:
        self._store = store
        self._keys = keys

    async def get(self, topic: str) -> bytes | None:
        """Returns the stored policy as JSON; None if there is none. `read_policy` reads both."""
        return maybe(binary, await self._store.command("GET", self._keys.policy(topic)))

    async def get_many(self, topics: Sequence[str]) -> list[bytes | None]:
        """Returns the stored policies of the topics as JSON, in one round trip; None for a topic without one."""
        stored = await self._store.commands([("GET", self._keys.policy(topic)) for topic in topics])
        return [maybe(binary, policy) for policy in stored]

    async def put(self, topic: str, policy: Policy) -> None:
        await self._store.command("SET", self._keys.policy(topic), write_policy(policy))

    async def replace(self, topic: str, former: bytes | None, policy: Policy) -> bool:
        """Sets the policy if the stored one is still `former`. `former`: the policy as JSON that the caller has read;
        None: there was none. Keeps fields that only a newer bridge knows. Returns whether it set the policy."""
        (done,) = await self._store.run([self.call(topic, former, write_policy(policy, over=former))])
        return done

    async def remove(self, topic: str) -> None:
        await self._store.command("DEL", self._keys.policy(topic))

    def call(self, topic: str, former: bytes | None, policy: bytes) -> Call[bool]:
        return Call(SCRIPTS["policy"], plain(flag), (self._keys.policy(topic),), (former or b"", policy))


def write_policy(policy: Policy, *, over: bytes | None = None) -> bytes:
    """Returns a policy as JSON. `over`: the stored policy; the result keeps its fields that this version does not
    know."""
    return orjson.dumps({**orjson.loads(over or b"{}"), **asdict(policy)})


def read_policy(stored: bytes | None) -> Policy:
    """Reads a policy that a bridge of any version has stored. None: no policy is stored, so all fields get their
    defaults. Ignores fields that this version does not know."""
    if stored is None:
        return Policy()
    known = _known(Policy, orjson.loads(stored))
    if (backoff := known.get("backoff")) is not None:
        backoff = _known(Backoff, backoff)
        known["backoff"] = Backoff(**{**backoff, "steps_ms": tuple(backoff.get("steps_ms", ()))})
    return Policy(**{**known, "release": Release(known["release"])})


def _known(kind: type[Policy | Backoff], stored: Mapping[str, Any]) -> dict[str, Any]:
    return {field.name: stored[field.name] for field in fields(kind) if field.name in stored}
