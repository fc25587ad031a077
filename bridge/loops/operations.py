"""Carries out bulk operations, a portion of messages at a time.

Before a process changes the messages of a portion, it saves the list of these messages in Redis. It also saves the
place where the next portion begins. If the process dies, the next process changes the saved messages once more and then
goes on from that place. A message that is already changed counts as done (`bridge/service/bulk/changes.py`). So each
message is counted once.

One process at a time has the lease of an operation. Each portion extends the lease. If the lease may have ended, its
process changes nothing more, and leases an operation again.

If a portion raises an error although all servers answer, the operation waits for another try until its lease has ended.
Meanwhile the process works on other operations. After five tries (`MOST_TRIES`) the operation fails.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from time import monotonic
from typing import Final, NoReturn

import structlog

from bridge.metrics.loops import BULK_CHANGED, BULK_RUNNING
from bridge.model import log_scope
from bridge.model.action import NO_TOKEN, Action, ActionName
from bridge.model.bulk import OperationState
from bridge.model.errors import NotFound, Unavailable
from bridge.model.part_state import OK
from bridge.service.bulk.operations import MOST_TRIES, Work
from bridge.service.health.supervisor import Status, retrying
from bridge.service.pools.bulk_actions import PORTION, BulkActions
from bridge.service.pools.pools import Pools
from bridge.store.kept.operations import Lost

log = structlog.get_logger(__name__)

_LOOK_EVERY_S: Final = 1.0
_HOLD_EVERY_S: Final = 5.0
"""The seconds between two extensions of a lease during a portion. A search of a long dead-letter queue may take
longer."""
_LONGEST_REASON: Final = 300
_REST: Final = 1.0
"""How long a process pauses after a portion, as a share of the portion's duration. Sends and releases run meanwhile."""


class Operations:
    def __init__(self, pools: Pools) -> None:
        self._bulk = BulkActions(pools)
        self._actions = pools.default.actions
        self._work: Work | None = None
        self.status = Status("operations", state=OK)

    async def run(self) -> NoReturn:
        """Carries out operations for ever. While Redis or RabbitMQ is away, the loop tries again every second."""
        await retrying(self.status, self._rested)

    async def _rested(self) -> float:
        began_s = monotonic()
        worked = await self.run_once()
        return (monotonic() - began_s) * _REST if worked else _LOOK_EVERY_S

    async def run_once(self) -> bool:
        """Changes a portion of an operation, and saves the next portion. Returns False if there is no operation to work
        on.

        Raises:
            Unavailable: some messages of the portion may be changed. The next run repeats the portion.
        """
        # After an error below, the next run may take another operation.
        work, self._work = self._work, None
        try:
            if work is None or monotonic() >= work.lease.until_s:
                work = await self._bulk.operations.take()
            BULK_RUNNING.set(work is not None)
            if work is None:
                return False
            # Timelines name the token that asked.
            log_scope.enter_token(log_scope.NOBODY if work.who == NO_TOKEN else work.who)
            await self._work_on(work)
        except Lost:
            # The process was slow, and another one goes on.
            log.info("operation.lost", id=None if work is None else work.lease.operation_id)
        return True

    async def _work_on(self, work: Work) -> None:
        """Changes a portion. If the operation goes on in this process, keeps the work for the next run.

        Raises:
            Lost: another process may have leased the operation.
            Unavailable: some messages of the portion may be changed.
        """
        try:
            goes_on = await self._portion(work)
        except Unavailable:
            # Without a new lease, one process after another would take the operation, and each would count as a failed
            # try.
            with suppress(Unavailable):
                await self._bulk.operations.hold(work)
            self._work = work
            raise
        except Lost:
            raise
        except Exception as error:  # noqa: BLE001 - the status logs it
            self.status.failed(error, id=work.lease.operation_id, tries=work.lease.tries)
            if work.lease.tries < MOST_TRIES:
                return
            says = f"{type(error).__name__}: {error}"[:_LONGEST_REASON]
            reason = f"a portion of it failed {MOST_TRIES} times, the last time with {says}"
            goes_on = await self._bulk.operations.save(work, OperationState.FAILED, reason)
        if goes_on:
            self._work = work
        else:
            await self._leave(work)

    async def _portion(self, work: Work) -> bool:
        """Changes the saved portion, if there is one, then finds and saves the next. Returns whether the operation goes
        on in this process."""
        if work.is_noted:
            async with self._held(work):
                changed = await self._bulk.run(work.bulk, work.portion, lambda: _check_lease(work))
            BULK_CHANGED.labels(work.bulk.action).inc(changed.done)
            work.progress += changed
            work.portion, work.is_noted = (), False
        if not work.portion and not work.is_last:
            await self._find(work)
        ends = work.is_last and not work.portion
        return await self._bulk.operations.save(work, OperationState.DONE if ends else None)

    @asynccontextmanager
    async def _held(self, work: Work) -> AsyncIterator[None]:
        """Extends the lease again and again within the context."""
        ended = asyncio.Event()

        async def hold() -> None:
            while True:
                with suppress(TimeoutError):
                    async with asyncio.timeout(_HOLD_EVERY_S):
                        await ended.wait()
                    return
                with suppress(Unavailable, Lost):  # then `_check_lease` ends the portion
                    await self._bulk.operations.hold(work)

        holding = asyncio.create_task(hold())
        try:
            yield
        finally:
            ended.set()
            await holding

    async def _leave(self, work: Work) -> None:
        """Records the end of the bulk operation as an operator's action."""
        with suppress(NotFound):  # newer operations have taken its place
            operation = await self._bulk.operations.get(work.lease.operation_id)
            action = Action(
                what=ActionName.OPERATION_ENDED,
                who=work.who,
                topic=work.bulk.filter.one_topic,
                target=operation.id,
                count=operation.progress.done,
            )
            await self._actions.record(action)

    async def _find(self, work: Work) -> None:
        """Finds the messages of the next portion. Sets `is_last` if no further messages follow the portion."""
        most, taken = work.bulk.most, work.progress.taken
        limit = PORTION if most is None else min(PORTION, most - taken)
        if limit <= 0:
            work.is_last = True
            return
        try:
            portion = await self._bulk.portion(work.bulk, work.cursor, limit)
        except NotFound:
            work.is_last = True  # somebody has removed the topic
            return
        work.portion, work.cursor = portion.targets, portion.cursor
        work.is_last = portion.cursor is None


def _check_lease(work: Work) -> None:
    """Checks that the lease has not ended, and raises Lost if another process may have the operation by now."""
    if monotonic() >= work.lease.until_s:
        raise Lost
