"""Finds copies that are certainly ghosts, because the message has ended or its record is at a later epoch. One call
asks about many records of one home, a key that all messages of a bucket share (`Keys.home`)."""

from __future__ import annotations

from collections.abc import Mapping

from bridge.model.message import Copy
from bridge.store.client import Store
from bridge.store.messages.records import Records


async def superseded(store: Store, records: Records, copies: Mapping[int, Copy], *, least: int = 1) -> set[int]:
    """Returns which of the copies are certainly ghosts, as their keys in the mapping `copies`. `least`: does not ask
    about a home with fewer of these copies, and returns none of them.

    Raises:
        StoreUnavailable: Redis did not answer.
    """
    homes: dict[str, list[int]] = {}
    for key, copy in copies.items():
        homes.setdefault(records.keys.home(copy.topic, copy.id), []).append(key)
    groups = [keys for keys in homes.values() if len(keys) >= least]
    if not groups:
        return set()
    answers = await store.run([records.superseded([copies[key] for key in keys]) for keys in groups])
    return {
        key
        for keys, answer in zip(groups, answers, strict=True)
        for key, ghost in zip(keys, answer, strict=True)
        if ghost
    }
