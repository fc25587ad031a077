"""Commits items that arrive together as one group. An item that arrives alone does not wait."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from bridge.model import log_scope

Item = TypeVar("Item")
Result = TypeVar("Result")


class GroupCommit(Generic[Item, Result]):
    """Commits items in groups of up to `most`, with up to `at_once` groups in flight.

    While fewer than `at_once` groups are in flight, an item is committed at once, else with the next group. `commit`
    gets the items of a group, and returns one result for each, in order. If it raises an exception, every item of the
    group gets the exception. Log lines of a group of one item have the id of the item's request. Log lines of a larger
    group have none.
    """

    def __init__(self, commit: Callable[[list[Item]], Awaitable[list[Result]]], *, most: int, at_once: int) -> None:
        self._commit = commit
        self._most = most
        self._at_once = at_once
        self._pending: list[tuple[Item, asyncio.Future[Result], str]] = []
        self._in_flight: set[asyncio.Task[None]] = set()

    async def submit(self, item: Item) -> Result:
        """Returns the item's result once its group is committed.

        If the caller is cancelled before the group begins, the item is not committed.
        """
        done: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._pending.append((item, done, log_scope.current()))
        if len(self._in_flight) < self._at_once:
            self._in_flight.add(asyncio.create_task(self._run()))
        return await done

    async def finish(self) -> None:
        """Waits until no group is in flight."""
        while self._in_flight:
            await asyncio.wait(self._in_flight)

    async def _run(self) -> None:
        while self._pending:
            # A cancelled caller may have submitted its item again. Committing this one too would do it twice.
            waiting = [each for each in self._pending if not each[1].done()]
            group, self._pending = waiting[: self._most], waiting[self._most :]
            if not group:
                break
            log_scope.enter(group[0][2] if len(group) == 1 else log_scope.NOBODY)
            try:
                results = await self._commit([item for item, _, _ in group])
                answered = [*zip(group, results, strict=True)]
            except Exception as error:  # noqa: BLE001 - every caller of the group gets it
                for _, done, _ in group:
                    if not done.done():
                        done.set_exception(error)
            else:
                for (_, done, _), result in answered:
                    if not done.done():
                        done.set_result(result)
        # A done callback would run too late: an item submitted before it would wait for a group that never starts.
        self._in_flight.discard(asyncio.current_task())
