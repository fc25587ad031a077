"""Keeps operators' actions in Redis, in one stream. The oldest actions are removed."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import asdict
from typing import Final

import orjson

from bridge.model.action import Action, Recorded
from bridge.store.client import Store
from bridge.store.keys import Keys
from bridge.store.replies import fields, pairs, text

MOST: Final = 10_000
"""How many actions are kept. Redis removes whole nodes of a stream, so it keeps up to one node more: 100 by default."""

_FIELD: Final = "action"
_KNOWN: Final = {field.name for field in dataclasses.fields(Action)}


class StoredActions:
    """The stream of actions. Every method raises StoreUnavailable if Redis does not answer. `Recorded.at_ms` is a
    moment of Redis' clock."""

    def __init__(self, store: Store, keys: Keys) -> None:
        self._store = store
        self._key = keys.actions

    async def add(self, *actions: Action) -> None:
        """Adds actions, the oldest first."""
        await self._store.commands(
            [("XADD", self._key, "MAXLEN", "~", MOST, "*", _FIELD, _write(action)) for action in actions]
        )

    async def before(self, last: tuple[int, int] | None, limit: int) -> list[Recorded]:
        """Returns up to `limit` actions, the newest first. `last`: the `at_ms` and the `place` of a `Recorded`; returns
        only actions before this one. None: starts with the newest action."""
        end = "+" if last is None else f"({last[0]}-{last[1]}"
        entries = await self._store.command("XREVRANGE", self._key, end, "-", "COUNT", limit)
        return [_recorded(text(entry_id), fields(entry)) for entry_id, entry in pairs(entries)]


def _write(action: Action) -> bytes:
    return orjson.dumps({name: value for name, value in asdict(action).items() if value is not None})


def _recorded(entry_id: str, entry: Mapping[str, bytes]) -> Recorded:
    at_ms, _, place = entry_id.partition("-")
    # Passes over fields that only a newer bridge knows.
    action = {name: value for name, value in orjson.loads(entry[_FIELD]).items() if name in _KNOWN}
    return Recorded(int(at_ms), int(place), Action(**action))
