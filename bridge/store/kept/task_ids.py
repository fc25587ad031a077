"""Makes the ids of tasks: numbers that a JSON double holds exactly, unique over all processes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Final

from bridge.store.calls import Call, plain
from bridge.store.client import Store
from bridge.store.keys import Keys
from bridge.store.replies import whole
from bridge.store.scripts import SCRIPTS

_BLOCK: Final = 256


class TaskIds:
    """Reserves ids in blocks. Ids that a process has not used when it ends stay unused."""

    def __init__(self, store: Store, keys: Keys) -> None:
        self._store = store
        self._key = keys.task_id
        self._left: Iterator[int] = iter(())
        self._reserving = asyncio.Lock()

    async def next(self) -> int:
        """Returns an id that no task has.

        Raises:
            StoreUnavailable: Redis did not answer.
        """
        async with self._reserving:
            task_id = next(self._left, None)
            if task_id is None:
                (first,) = await self._store.run([self.call(_BLOCK)])
                self._left = iter(range(first + 1, first + _BLOCK))
                return first
            return task_id

    def call(self, count: int) -> Call[int]:
        return Call(SCRIPTS["task_ids"], plain(whole), (self._key,), (count,))
