"""Waits until copies have reached their ready queues. The checkpoint that releases a copy stores the copy's arrival in
Redis.

The message of a replay, or of a send to a new topic, passes the checkpoint, perhaps in another process. The caller
expects that the next pull finds the message.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from time import monotonic
from typing import Final

from bridge.model import background
from bridge.model.errors import StoreUnavailable
from bridge.model.message import Copy, CopyKind, Record
from bridge.service.context import Context
from bridge.store.arrivals import StoredArrivals

WITHIN_S: Final = 1.0
FIRST_PAUSE_S: Final = 0.005
LONGEST_PAUSE_S: Final = 0.05


def is_awaited(copy: Copy, kind: CopyKind) -> bool:
    """Whether the caller of a send or a replay may be waiting for this released copy to reach its ready queue."""
    return copy.attempt == 1 and (kind is CopyKind.RETRY or copy.due_ms <= copy.created_ms)


class Arrivals:
    def __init__(self, context: Context) -> None:
        self._stored = StoredArrivals(context.store, context.records.keys)
        self._arrived: list[Copy] = []
        self._noting: asyncio.Task[None] | None = None

    def note(self, copy: Copy) -> None:
        """Stores in Redis that the copy is in its ready queue. Returns at once, and works in the background."""
        self._arrived.append(copy)
        if self._noting is None or self._noting.done():
            self._noting = background.begin(self._note_all(), "note arrivals")

    async def noted(self, copies: Sequence[Copy | Record]) -> list[bool]:
        """Returns for each copy whether Redis has its arrival. For a record in `copies`, asks about the copy that the
        record names.

        Raises:
            StoreUnavailable: Redis did not answer.
        """
        return await self._stored.noted(copies)

    async def until_noted(self, copies: Sequence[Copy]) -> None:
        """Waits until Redis has the arrivals of all copies, but a second at most. Returns early if Redis does not
        answer."""
        left, until_s, pause_s = list(copies), monotonic() + WITHIN_S, FIRST_PAUSE_S
        with suppress(StoreUnavailable):
            while left and monotonic() < until_s:
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
                left = [copy for copy, noted in zip(left, await self.noted(left), strict=True) if not noted]

    async def _note_all(self) -> None:
        while self._arrived:
            arrived, self._arrived = self._arrived, []
            with suppress(StoreUnavailable):  # a note is only a hint
                await self._stored.note(arrived)
