"""Stores in Redis that copies have reached their ready queues. Callers in any process wait for these notes.

A note lasts two seconds and is only a hint. If it is missing, nothing is lost: the message is accepted, and a pull
finds it a moment later.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from bridge.model.message import Copy, Record
from bridge.store import replies
from bridge.store.client import Store
from bridge.store.keys import Keys

_KEPT_MS: Final = 2_000  # longer than anybody waits


class StoredArrivals:
    """The arrival notes of one pool: each says that a copy has reached its ready queue. Every method raises
    StoreUnavailable if Redis does not answer."""

    def __init__(self, store: Store, keys: Keys) -> None:
        self._store = store
        self._keys = keys

    async def note(self, copies: Sequence[Copy]) -> None:
        """Stores in Redis that these copies are in their ready queues."""
        await self._store.commands(
            [("SET", self._keys.arrival(copy.topic, copy.id), copy.epoch, "PX", _KEPT_MS) for copy in copies]
        )

    async def noted(self, copies: Sequence[Copy | Record]) -> list[bool]:
        """Returns for each copy whether a note of it exists. For a record, looks for the copy that the record names."""
        if not copies:
            return []
        answers = await self._store.commands([("GET", self._keys.arrival(copy.topic, copy.id)) for copy in copies])
        epochs = [0 if answer is None else replies.number(answer) for answer in answers]
        return [epoch == copy.epoch for epoch, copy in zip(epochs, copies, strict=True)]
