"""Works on bulk operations, a portion of messages at a time.

Before anybody changes the messages of a portion, Redis has them, and the place behind them. A process that dies leaves
both to the next one, which changes these messages once more and then goes on behind them. A message that is changed
already counts as done (`bridge/service/bulk/changes.py`). So each message is counted once.

One process at a time has the lease of an operation. Each portion extends it.
"""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import Final

import structlog

from bridge.metrics.loops import BULK_CHANGED, BULK_RUNNING
from bridge.model import log_scope
from bridge.model.action import NO_TOKEN, Action, What
from bridge.model.bulk import OperationState
from bridge.model.errors import NotFound, Unavailable
from bridge.service.bulk.operations import Work
from bridge.service.bulk_actions import PORTION, BulkActions
from bridge.service.pools import Pools
from bridge.service.supervisor import waiting

log = structlog.get_logger(__name__)

_LOOK_EVERY_S: Final = 1.0
_RETRY_S: Final = 1.0
_REST: Final = 1.0
"""How long it pauses after a portion, as a share of the time that the portion took. Sends and releases go on."""


class Operations:
    name = "operations"

    def __init__(self, pools: Pools) -> None:
        self._bulk = BulkActions(pools)
        self._actions = pools.default.actions
        self._work: Work | None = None
        self.state = "ok"

    async def run(self) -> None:
        """Runs for ever. While Redis or RabbitMQ is away, it tries again every second."""
        while True:
            began_s = monotonic()
            try:
                worked = await self.run_once()
                self.state = "ok"
            except Unavailable as error:
                self.state = waiting(error)
                log.warning("operations.waiting", reason=str(error))
                await asyncio.sleep(_RETRY_S)
                continue
            await asyncio.sleep((monotonic() - began_s) * _REST if worked else _LOOK_EVERY_S)

    async def run_once(self) -> bool:
        """Changes a portion of an operation, and notes the next one. Returns False if there is no operation.

        Raises:
            Unavailable: some messages of the portion may be changed. The next run goes on with it.
        """
        if self._work is None:
            self._work = await self._bulk.operations.take()
        BULK_RUNNING.set(self._work is not None)
        if self._work is None:
            return False
        # Timelines name the token that asked.
        log_scope.enter_token(log_scope.NOBODY if self._work.who == NO_TOKEN else self._work.who)
        try:
            goes_on = await self._portion(self._work)
        except Unavailable:
            raise
        except Exception:
            # It would fail again and again.
            log.exception("operation.failed", id=self._work.lease.operation_id)
            goes_on = await self._bulk.operations.save(self._work, OperationState.FAILED)
        if not goes_on:
            await self._leave(self._work)
            self._work = None
        return True

    async def _portion(self, work: Work) -> bool:
        """Returns whether the operation goes on in this process."""
        if work.is_noted:
            changed = await self._bulk.run(work.bulk, work.portion)
            BULK_CHANGED.labels(work.bulk.action).inc(changed.done)
            work.progress += changed
            work.portion, work.is_noted = (), False
        if not work.portion and not work.is_last:
            await self._find(work)
        ends = work.is_last and not work.portion
        return await self._bulk.operations.save(work, OperationState.DONE if ends else None)

    async def _leave(self, work: Work) -> None:
        """Records the end of the operation. Without an end, another process has taken over."""
        operation = await self._bulk.operations.get(work.lease.operation_id)
        if operation.ended_ms:
            action = Action(
                what=What.OPERATION_ENDED,
                who=work.who,
                topic=work.bulk.filter.one_topic,
                target=operation.id,
                count=operation.progress.done,
            )
            await self._actions.record(action)

    async def _find(self, work: Work) -> None:
        """Finds the next messages."""
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
