"""Finds the messages that a filter matches and changes them: a few at once, many as an operation.

An operation goes on in the loop `bridge/loops/operations.py`, a portion at a time. The loop uses the methods here:
`portion` finds messages, and `run` changes them. The operations of all pools are in the Redis of the default pool.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from bridge.model.bulk import Bulk, BulkOperation, Progress, Target
from bridge.model.errors import Conflict
from bridge.model.filter import Found
from bridge.model.message import State
from bridge.service.bulk.operations import Operations
from bridge.service.pools.pools import Pools
from bridge.service.pools.search import Search
from bridge.service.results import Check, Results
from bridge.store.kept.operations import MOST_RUNNING
from bridge.store.messages.outcomes import Outcome
from bridge.store.messages.verdicts import WeighVerdict

AT_ONCE: Final = 1_000
"""The most messages that a call changes itself. For more messages it begins an operation."""
PORTION: Final = 250
"""The most messages that are changed together. Other calls get their turns between two portions."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Portion:
    """Some of the messages that a filter matches. `cursor`: where to search for further messages; None: there are
    none."""

    targets: list[Target]
    cursor: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Applied:
    """The result of `BulkActions.apply`. `matched`: how many messages match. `progress`: how many messages the call
    itself has changed, and how many it could not change. `operation`: the operation that changes the messages; None:
    the call has changed them itself, or was a dry run."""

    matched: int
    progress: Progress
    operation: BulkOperation | None = None


class BulkActions:
    def __init__(self, pools: Pools) -> None:
        self._pools = pools
        self._search = Search(pools)
        self.operations = Operations(pools.default.context)

    async def moment_ms(self) -> int:
        """Returns the moment at which an action begins, in Unix ms. It is later than the creation of all messages that
        clients have sent by now.

        Raises:
            StoreUnavailable: the Redis of one pool did not answer.
        """
        stores = [service.context.store for service in self._pools.services.values()]
        await asyncio.gather(*(store.learn_clock() for store in stores))
        return max(int(store.clock.latest_ms() or store.clock.now_ms()) + 1 for store in stores)

    async def apply(self, bulk: Bulk, *, who: str, dry_run: bool) -> Applied:
        """Counts the messages that match. Changes them if they are at most `AT_ONCE`; otherwise begins an operation
        that changes them. `who`: the id of the caller's token, or a word for a caller without a token. `dry_run`: only
        counts. Returns the counts, and the operation if one was begun.

        Raises:
            NotFound: the filter names one topic, and that topic does not exist.
            Conflict: the call would begin an operation, and `MOST_RUNNING` operations run already.
            Unavailable: a server did not answer; some messages may be changed.
        """
        first, matched = await self._matching(bulk)
        if dry_run or not matched:
            return Applied(matched=matched, progress=Progress())
        if matched > AT_ONCE:
            return Applied(matched=matched, progress=Progress(), operation=await self._begin(bulk, who, matched))
        progress = Progress()
        for start in range(0, len(first), PORTION):
            progress += await self.run(bulk, first[start : start + PORTION])
        return Applied(matched=matched, progress=progress)

    async def portion(self, bulk: Bulk, cursor: str | None, limit: int = PORTION) -> Portion:
        """Returns the next messages that match, by due moment. `cursor`: the `cursor` of the previous portion; None:
        the first portion. A portion before the last may have fewer messages than `limit`, or none.

        Raises:
            NotFound: the filter names one topic, and that topic does not exist.
            StoreUnavailable: Redis did not answer.
        """
        page = await self._search.page(bulk.filter, sees=bulk.reach.has, limit=limit, cursor=cursor)
        return Portion(targets=await self._targets(bulk, page.items), cursor=page.next_cursor)

    async def run(self, bulk: Bulk, targets: Sequence[Target], check: Check = lambda: None) -> Progress:
        """Carries out the action on these messages, and returns how many it has changed. A message that is already
        changed counts as changed by this call. `check`: called before each burst of changes; it raises an error to stop
        them.

        Raises:
            Unavailable: a server did not answer, and some messages may be changed. Run it again with the same messages.
            Exception: the error of `check`; some messages may be changed.
        """
        by_pool: dict[str, list[Target]] = defaultdict(list)
        for target in targets:
            by_pool[self._pools.serving(target.topic).context.pool].append(target)
        results: Results = {}
        for pool, own in by_pool.items():
            results |= await self._pools.services[pool].changes.run(bulk, own, check)
        return Progress.of(results.values())

    async def _matching(self, bulk: Bulk) -> tuple[list[Target], int]:
        """Returns the first messages that match, at most `AT_ONCE`, and how many messages match in all."""
        first: list[Target] = []
        matched = 0
        most = bulk.most
        cursor: str | None = None
        while True:
            page = await self._search.page(bulk.filter, sees=bulk.reach.has, limit=AT_ONCE, cursor=cursor)
            if len(first) < AT_ONCE:
                targets = await self._targets(bulk, page.items)
                first += targets
                matched += len(targets)
            else:
                matched += await self._count(bulk, page.items)
            cursor = page.next_cursor
            if cursor is None or (most is not None and matched >= most):
                break
        matched = matched if most is None else min(matched, most)
        return first[: min(matched, AT_ONCE)], matched

    async def _count(self, bulk: Bulk, found: Sequence[Found]) -> int:
        """Counts the found messages that match. The index entry alone is enough for a leased message that was due when
        the action began. It is also enough for a waiting message that is due after the action began. For all other
        entries the method reads the records, because Redis may have forgotten some."""
        unsure = [one for one in found if one.state is not State.LEASED and one.due_ms <= bulk.began_ms]
        unsure += [one for one in found if one.due_ms > bulk.began_ms and one.state is not State.WAITING]
        at_goal = sum(one.due_ms == bulk.due_ms and one.due_ms > bulk.began_ms for one in found)
        return len(found) - len(unsure) - at_goal + len(await self._targets(bulk, unsure))

    async def _targets(self, bulk: Bulk, found: Sequence[Found]) -> list[Target]:
        """Reads the records of messages, and returns those that match."""
        by_pool: dict[str, list[Found]] = defaultdict(list)
        for one in found:
            by_pool[self._pools.serving(one.topic).context.pool].append(one)
        outcomes: dict[Found, Outcome[WeighVerdict]] = {}
        for pool, own in by_pool.items():
            changes = self._pools.services[pool].changes
            for start in range(0, len(own), PORTION):
                some = own[start : start + PORTION]
                read = await changes.records([(one.topic, one.id) for one in some])
                outcomes |= zip(some, read, strict=True)
        targets = []
        for one in found:
            record = outcomes[one].record
            if record is not None and bulk.takes(record, outcomes[one].now_ms):
                targets.append(Target(one.topic, one.id, record.created_ms, record.epoch, record.state))
        return targets

    async def _begin(self, bulk: Bulk, who: str, matched: int) -> BulkOperation:
        operation = await self.operations.begin(bulk, who, matched)
        if operation is None:
            raise Conflict(f"{MOST_RUNNING} operations run, which is the most: wait until one has ended, or cancel one")
        return operation
