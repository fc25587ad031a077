"""Group commit: what arrives together is done together, and what comes alone does not wait."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


class GroupCommit(Generic[Item, Result]):
    """Commits items in groups: at once while fewer than `at_once` groups are under way, else with the next group.

    `commit` answers one result an item, in order; an exception it raises is every item's.
    """

    def __init__(self, commit: Callable[[list[Item]], Awaitable[list[Result]]], *, most: int, at_once: int) -> None:
        self._commit = commit
        self._most = most
        self._at_once = at_once
        self._pending: list[tuple[Item, asyncio.Future[Result]]] = []
        self._under_way: set[asyncio.Task[None]] = set()

    async def submit(self, item: Item) -> Result:
        """Waits for the item's group to be committed; an item whose caller is cancelled before is not committed."""
        done: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._pending.append((item, done))
        if len(self._under_way) < self._at_once:
            self._under_way.add(asyncio.create_task(self._run()))
        return await done

    async def finish(self) -> None:
        """Waits until nothing is under way."""
        while self._under_way:
            await asyncio.wait(self._under_way)

    async def _run(self) -> None:
        while self._pending:
            # A caller that gave up may have come back since, by another way: its item would be done a second time.
            waiting = [(item, done) for item, done in self._pending if not done.done()]
            group, self._pending = waiting[: self._most], waiting[self._most :]
            if not group:
                break
            try:
                results = await self._commit([item for item, _ in group])
            except Exception as error:  # noqa: BLE001 - handed to every caller that waits for this group
                for _, done in group:
                    if not done.done():
                        done.set_exception(error)
            else:
                for (_, done), result in zip(group, results, strict=True):
                    if not done.done():
                        done.set_result(result)
        # Not when the task is seen to be done: what arrives in between would wait for a group that never comes.
        self._under_way.discard(asyncio.current_task())
