"""Keeps operations: begins, lists and cancels them, and saves how far they are done."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import orjson
import structlog

from bridge.model.bulk import Bulk, BulkOperation, OperationPage, OperationState, Progress, Target
from bridge.model.errors import NotFound
from bridge.model.message import State
from bridge.model.ulids import new_ulid
from bridge.service.context import Context
from bridge.service.reading.cursors import make_cursor, read_cursor
from bridge.store.kept.operations import Lease, Stored, StoredOperations

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class Work:
    """An operation that this process works on. `who`: the id of the token that began it, or a word for a caller without
    a token. `progress`: the counts so far. `portion`: the messages to change next. `cursor`: where to search for
    further messages; None: from the beginning. `is_last`: there are no further messages. `is_noted`: Redis has the
    portion and the cursor."""

    lease: Lease
    bulk: Bulk
    who: str
    progress: Progress
    portion: Sequence[Target] = field(default_factory=tuple)
    cursor: str | None = None
    is_last: bool = False
    is_noted: bool = True


MOST_TRIES: Final = 5
"""How often a portion is begun at most. If none of these tries ends the portion, the operation fails. Otherwise such an
operation would hold up the others for ever."""
_VERSION: Final = 2
"""The version of the stored request. A bridge that does not know the version must not guess which messages are
meant."""
_REASON_WAS_PATTERN: Final = 1
"""The earlier version, in which the reason of the filter was always a pattern."""


class Operations:
    """Begins, lists, cancels and saves the bulk operations of all pools. `context`: the context of the default pool,
    whose Redis keeps them."""

    def __init__(self, context: Context) -> None:
        self._stored = StoredOperations(context.store, context.records.keys)

    async def begin(self, bulk: Bulk, who: str, matched: int) -> BulkOperation | None:
        """Begins a bulk operation, and returns it. None: `MOST_RUNNING` operations run already. `who`: the id of the
        caller's token, or a word for a caller without a token. `matched`: how many messages match.

        Raises:
            StoreUnavailable: Redis did not answer; the operation may have begun.
        """
        operation_id = new_ulid()
        asked = orjson.dumps({**bulk.to_json(), "who": who, "version": _VERSION})
        if not await self._stored.begin(operation_id, asked, matched):
            return None
        return await self.get(operation_id)

    async def get(self, operation_id: str) -> BulkOperation:
        """Returns one operation.

        Raises:
            NotFound: there is no operation of this id, Redis no longer keeps it, or this version of the bridge can't
                read it.
            StoreUnavailable: Redis did not answer.
        """
        stored = await self._stored.get(operation_id)
        operation = None if stored is None else _operation(stored)
        if operation is None:
            raise _no_operation(operation_id)
        return operation

    async def page(self, *, shows: Callable[[BulkOperation], bool], limit: int, cursor: str | None) -> OperationPage:
        """Returns a page of the operations that `shows` accepts, the newest first. `cursor`: the `next_cursor` of the
        previous page; None: the first page.

        Raises:
            InvalidRequest: no page gave this cursor.
            StoreUnavailable: Redis did not answer.
        """
        behind = None if cursor is None else read_cursor(cursor)
        known = map(_operation, await self._stored.all())
        shown = [operation for operation in known if operation is not None and shows(operation)]
        if behind is not None:
            shown = [operation for operation in shown if (operation.created_ms, operation.id) < behind]
        items = shown[:limit]
        more = len(shown) > limit
        return OperationPage(items, make_cursor(items[-1].created_ms, items[-1].id) if more else None)

    async def cancel(self, operation_id: str) -> BulkOperation:
        """Cancels an operation, and returns it. An operation that has ended stays as it is. The process that works on a
        cancelled operation still ends the portion that it has begun.

        Raises:
            NotFound: there is no operation of this id, Redis no longer keeps it, or this version of the bridge can't
                read it.
            StoreUnavailable: Redis did not answer.
        """
        if not await self._stored.cancel(operation_id):
            raise _no_operation(operation_id)
        return await self.get(operation_id)

    async def take(self) -> Work | None:
        """Leases an operation that no process works on. None: there is no such operation. Or the leased operation was
        cancelled, or could not go on and was ended as failed.

        Raises:
            Lost: another process has taken over the operation.
            StoreUnavailable: Redis did not answer.
        """
        lease = await self._stored.take()
        if lease is None:
            return None
        stored = await self._stored.get(lease.operation_id, work=True)
        if stored is None:
            return None
        if stored.state != OperationState.RUNNING:
            # The operation was cancelled, and the process that worked on it has died.
            await self._stored.save(lease, progress=stored.progress, work=b"")
            return None
        if lease.tries > MOST_TRIES:
            reason = f"a portion of it was begun {MOST_TRIES} times, and no process came to its end"
            log.error("operation.given_up", id=stored.id, reason=reason)
            await self._fail(lease, stored, reason)
            return None
        operation = _operation(stored)
        if operation is None:
            log.error("operation.unreadable", id=stored.id)
            await self._fail(lease, stored, "another version of the bridge began it, and this one can't read it")
            return None
        work = Work(lease, operation.bulk, operation.who, operation.progress)
        if stored.work:
            parts = orjson.loads(stored.work)
            work.cursor, work.is_last = parts["cursor"], parts["last"]
            work.portion = [
                Target(topic, message_id, created_ms, epoch, State(code))
                for topic, message_id, created_ms, epoch, code in parts["portion"]
            ]
        return work

    async def save(self, work: Work, ended: OperationState | None = None, reason: str = "") -> bool:
        """Saves the work, and extends its lease. Returns whether the operation goes on; False: it has ended, now or by
        a cancel. `ended`: the final state; None: the operation is to go on. `reason`: why the operation failed.

        Raises:
            Lost: another process has taken over the operation.
            StoreUnavailable: Redis did not answer.
        """
        parts = {"cursor": work.cursor, "last": work.is_last, "portion": [list(target) for target in work.portion]}
        lease = await self._stored.save(
            work.lease,
            progress=orjson.dumps(work.progress.to_json()),
            work=orjson.dumps(parts),
            ended=ended or "",
            reason=reason,
        )
        if lease is None:
            return False
        work.lease, work.is_noted = lease, True
        return True

    async def hold(self, work: Work) -> None:
        """Extends the lease of this work, because its portion takes long or waits for a server.

        Raises:
            Lost: another process has taken over the operation.
            StoreUnavailable: Redis did not answer.
        """
        work.lease = await self._stored.hold(work.lease)

    async def _fail(self, lease: Lease, stored: Stored, reason: str) -> None:
        """Ends an operation as failed, because this process can't carry it out. The operation keeps its counts."""
        failed = OperationState.FAILED
        await self._stored.save(lease, progress=stored.progress, work=b"", ended=failed, reason=reason)


def _operation(stored: Stored) -> BulkOperation | None:
    """Reads a stored operation; None if this version of the bridge does not know its form."""
    asked: dict[str, Any] = orjson.loads(stored.asked)
    if asked["version"] == _REASON_WAS_PATTERN:
        wanted = asked["filter"]
        if "reason" in wanted:
            wanted["reason_pattern"] = wanted.pop("reason")
    elif asked["version"] != _VERSION:
        return None
    return BulkOperation(
        id=stored.id,
        bulk=Bulk.of_json(asked),
        who=asked["who"],
        state=OperationState(stored.state),
        matched=stored.matched,
        progress=Progress.of_json(orjson.loads(stored.progress or b"{}")),
        created_ms=stored.created_ms,
        ended_ms=stored.ended_ms,
        reason=stored.reason,
    )


def _no_operation(operation_id: str) -> NotFound:
    return NotFound(f"there is no operation {operation_id!r}")
