"""Records operators' actions in the log and in Redis, and reads them page by page."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import asdict, replace
from typing import Final

import structlog

from bridge.model import log_scope
from bridge.model.action import Action, ActionPage, Recorded
from bridge.model.errors import Unavailable
from bridge.service.reading.cursors import make_cursor, not_a_cursor, read_cursor
from bridge.store.client import Store
from bridge.store.kept.actions import StoredActions
from bridge.store.keys import Keys

log = structlog.get_logger(__name__)

_STEP: Final = 1_000
_MOST_NUMBER: Final = 2**63  # both numbers in the id of a stream's entry are below it


class Actions:
    """The record of operators' actions (`model/action.py`): calls such as a change of a topic or a replay of dead
    letters. The default pool's Redis keeps the actions of all pools."""

    def __init__(self, store: Store, keys: Keys) -> None:
        self._stored = StoredActions(store, keys)

    @asynccontextmanager
    async def recording(self, action: Callable[[], Action | None]) -> AsyncIterator[None]:
        """Records the action that is done within the context, in the log and in Redis. `action`: called at the end of
        the context; returns the action, or None if there is nothing to record.

        If the context raises `Unavailable`, the action may be done in part. It is then recorded with `Action.done`
        False. After any other error the action was refused, and is not recorded.
        """
        try:
            yield
        except Unavailable:
            if (tried := action()) is not None:
                await self.record(replace(tried, count=None, done=False))
            raise
        if (done := action()) is not None:
            await self.record(done)

    async def record(self, action: Action) -> None:
        """Records an action after it was done. Never fails: if Redis does not take the record, only the log has it."""
        action = replace(action, request_id=log_scope.current())
        # The log line has the request's id anyway, like every line of the call.
        shown = {name: value for name, value in asdict(action).items() if value is not None and name != "request_id"}
        log.info("operator.action", **shown)
        try:
            await self.add(action)
        except Exception as error:  # noqa: BLE001 - the action is done, whatever became of its record
            log.warning("operator.unrecorded", what=action.what, reason=str(error))

    async def add(self, action: Action) -> None:
        """Records an action in Redis, but not in the log.

        Raises:
            StoreUnavailable: Redis did not answer; the action may be recorded.
        """
        await self._stored.add(action)

    async def page(self, *, shows: Callable[[Action], bool], limit: int, cursor: str | None) -> ActionPage:
        """Returns a page of the actions that `shows` accepts, the newest first. `cursor`: the `next_cursor` of the
        previous page; None: the first page.

        Raises:
            InvalidRequest: no page gave this cursor.
            StoreUnavailable: Redis did not answer.
        """
        last = None if cursor is None else _read(cursor)
        found: list[Recorded] = []
        step = limit + 1  # one more than the page shows whether another follows
        while len(found) <= limit:
            entries = await self._stored.before(last, step)
            found += [entry for entry in entries if shows(entry.action)]
            if len(entries) < step:
                break
            last, step = (entries[-1].at_ms, entries[-1].place), _STEP
        items = found[:limit]
        more = len(found) > limit
        return ActionPage(items, make_cursor(items[-1].at_ms, str(items[-1].place)) if more else None)


def _read(cursor: str) -> tuple[int, int]:
    at_ms, place = read_cursor(cursor)
    if not (place.isdecimal() and str(int(place)) == place and 0 < at_ms < _MOST_NUMBER and int(place) < _MOST_NUMBER):
        raise not_a_cursor(cursor)
    return at_ms, int(place)
