"""Records what operators did, in the log and in Redis, and pages through it."""

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
_MOST_NUMBER: Final = 2**63  # of the two in an id of a stream


class Actions:
    """The actions of all pools. The Redis of the default pool keeps them."""

    def __init__(self, store: Store, keys: Keys) -> None:
        self._stored = StoredActions(store, keys)

    @asynccontextmanager
    async def recording(self, action: Callable[[], Action | None]) -> AsyncIterator[None]:
        """Records an action that is done within the context, and one that a server did not answer: that one may be done
        in part. An action that was refused is not recorded, and None is none."""
        try:
            yield
        except Unavailable:
            if (tried := action()) is not None:
                await self.record(replace(tried, count=None, done=False))
            raise
        if (done := action()) is not None:
            await self.record(done)

    async def record(self, action: Action) -> None:
        """Records an action after it was done. Never fails: if Redis refuses the record, the log has it alone."""
        action = replace(action, request_id=log_scope.current())
        # The line names the request all the same, like every line of the call.
        shown = {name: value for name, value in asdict(action).items() if value is not None and name != "request_id"}
        log.info("operator.action", **shown)
        try:
            await self.add(action)
        except Exception as error:  # noqa: BLE001 - the action is done, whatever became of its record
            log.warning("operator.unrecorded", what=action.what, reason=str(error))

    async def add(self, action: Action) -> None:
        """Records an action in Redis only.

        Raises:
            StoreUnavailable: it may be recorded.
        """
        await self._stored.add(action)

    async def page(self, *, shows: Callable[[Action], bool], limit: int, cursor: str | None) -> ActionPage:
        """A page of the actions that `shows` accepts, the newest first.

        Raises:
            InvalidRequest: no page gave this cursor.
            StoreUnavailable
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
