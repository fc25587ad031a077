"""Searches for messages over topics and pools. The work for each page has a limit."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeVar

from bridge.model.filter import Filter, Found, Order
from bridge.model.labels import packed
from bridge.model.message import Message
from bridge.model.values import Page
from bridge.service.context import Context
from bridge.service.pools.merging import Ask, Index, Merge, position_of
from bridge.service.pools.pools import Pools
from bridge.service.reading.cursors import make_place, read_place
from bridge.service.reading.portions import portions
from bridge.store.calls import Call
from bridge.store.messages.outcomes import read_envelope
from bridge.store.messages.parts import Part
from bridge.store.messages.records import Records

Answer = TypeVar("Answer")

MOST_READ: Final = 2_000
"""After how many read records a page of a search by reason ends. The search has to read records because no index has
the reason."""

_A_CALL: Final = 500
"""The most entries that one call reads. Such a call takes a millisecond, in which Redis serves nobody else."""

_RECORDS_AT_ONCE: Final = 500
_CALLS_AT_ONCE: Final = 250
_LATEST_MS: Final = 2**53

Sees = Callable[[str], bool]


@dataclass(frozen=True, kw_only=True, slots=True)
class FoundPage:
    """A page of a search. `next_cursor`: for the next page; None: this page is the last. A page before the last may
    have fewer messages than its limit, or none."""

    items: list[Found]
    next_cursor: str | None


class Search:
    def __init__(self, pools: Pools) -> None:
        self._pools = pools

    async def page(
        self,
        wanted: Filter,
        *,
        sees: Sees,
        order: Order = Order.ASC,
        limit: int = 100,
        cursor: str | None = None,
    ) -> FoundPage:
        """Returns the next messages that match, by due moment, then by topic, then by id.

        Args:
            sees: returns whether the caller may see a topic. It is called for the topics that a glob matches. If the
            filter names one topic, the caller has checked that topic itself.
            cursor: the `next_cursor` of the previous page; None: the first page.

        Raises:
            InvalidRequest: no page gave this cursor.
            NotFound: the filter names one topic, and that topic does not exist.
            StoreUnavailable: the Redis of one pool did not answer. A page without the messages of that pool would look
                complete.
        """
        behind = None if cursor is None else read_place(cursor)
        merge = await self._merge(wanted, sees, order, limit, behind)
        items: list[Found] = []
        records_read = 0
        while len(items) < limit and not merge.is_over:
            left = limit - len(items)
            most = max(left, _RECORDS_AT_ONCE) if wanted.asks_for_reason else left
            asks = merge.asks(most)
            for ask, answer in zip(asks, await self._run_asks(wanted, order, asks), strict=True):
                merge.add(ask, answer)
            found = merge.take(most)
            if not (asks or found):
                break
            if wanted.asks_for_reason:
                records_read += len(found)
                found = await self._with_reason(wanted, found)
            items += found
            if records_read >= MOST_READ:
                break
        if len(items) > limit:
            items = items[:limit]
            return FoundPage(items=items, next_cursor=make_place(*position_of(items[-1])))
        more = merge.position is not None and not merge.is_over
        return FoundPage(items=items, next_cursor=make_place(*merge.position) if more and merge.position else None)

    async def messages(
        self, wanted: Filter, *, sees: Sees, order: Order = Order.ASC, limit: int = 100, cursor: str | None = None
    ) -> Page:
        """Returns the page that `page` returns, but with whole messages, and raises the same errors. The page ends
        before its bodies exceed 8 MiB, or after one larger body."""
        page = await self.page(wanted, sees=sees, order=order, limit=limit, cursor=cursor)
        weighed = await self._run_about(page.items, Records.weigh)
        shown = page.items[next(portions([outcome.extra for outcome in weighed]), slice(0, 0))]
        next_cursor = page.next_cursor if len(shown) == len(page.items) else make_place(*position_of(shown[-1]))
        looked = await self._run_about(shown, Records.look)
        items = [
            Message(record=outcome.record, envelope=read_envelope(outcome))
            for outcome in looked
            if outcome.record is not None
        ]
        return Page(items=items, next_cursor=next_cursor)

    def _context(self, topic: str) -> Context:
        return self._pools.serving(topic).context

    async def _merge(
        self, wanted: Filter, sees: Sees, order: Order, limit: int, behind: tuple[int, str, str] | None
    ) -> Merge:
        if wanted.one_topic is not None:
            await self._pools.serving(wanted.one_topic).topics.known(wanted.one_topic)
            topics = [wanted.one_topic]
        else:
            names = await self._pools.topic_names()
            topics = [topic for topic in names if wanted.takes_topic(topic) and sees(topic)]
        indexes = [
            Index(topic, bucket) for topic in topics for bucket in range(self._context(topic).records.keys.buckets)
        ]
        # Without these parts of the filter nearly every entry matches. So a call looks at no more entries than the page
        # may have.
        is_filtered = wanted.id_prefix or wanted.asks_for_reason or len(wanted.labels) > 1
        return Merge(indexes, order, behind, a_call=_A_CALL if is_filtered else min(limit, _A_CALL))

    async def _run_asks(self, wanted: Filter, order: Order, asks: Sequence[Ask]) -> list[Part]:
        states = "".join(str(int(state)) for state in wanted.wanted_states)
        labels = packed(wanted.labels)
        calls = []
        for ask in asks:
            topic, bucket = ask.index
            records = self._context(topic).records
            build = partial(records.labelled, labels=labels) if labels else records.page
            call = build(
                topic,
                bucket,
                states=states,
                due_from_ms=0 if wanted.due_after_ms is None else wanted.due_after_ms + 1,
                due_to_ms=_LATEST_MS if wanted.due_before_ms is None else wanted.due_before_ms - 1,
                cursor=ask.cursor,
                limit=ask.limit,
                order=order,
                prefix=wanted.id_prefix,
            )
            calls.append((topic, call))
        return await self._run(calls)

    async def _with_reason(self, wanted: Filter, found: Sequence[Found]) -> list[Found]:
        """Returns the found messages whose records have the wanted reason."""
        outcomes = await self._run_about(found, Records.weigh)
        return [
            item
            for item, outcome in zip(found, outcomes, strict=True)
            if outcome.record is not None and wanted.takes_reason(outcome.record.reason)
        ]

    async def _run_about(
        self, found: Sequence[Found], build: Callable[[Records, str, str], Call[Answer]]
    ) -> list[Answer]:
        """Runs one call about each message, and returns the answers in order. `build`: makes the call."""
        return await self._run(
            [(item.topic, build(self._context(item.topic).records, item.topic, item.id)) for item in found]
        )

    async def _run(self, calls: Sequence[tuple[str, Call[Answer]]]) -> list[Answer]:
        """Runs calls about topics, each on the Redis of its pool. Returns their answers in order."""
        answers: dict[int, Answer] = {}
        for start in range(0, len(calls), _CALLS_AT_ONCE):
            # Runs the calls in portions, so that other tasks get their turns.
            places: dict[str, list[int]] = defaultdict(list)
            for at in range(start, min(start + _CALLS_AT_ONCE, len(calls))):
                places[self._context(calls[at][0]).pool].append(at)
            stores = [self._context(calls[own[0]][0]).store for own in places.values()]
            runs = (store.run([calls[at][1] for at in own]) for store, own in zip(stores, places.values(), strict=True))
            for own, of_pool in zip(places.values(), await asyncio.gather(*runs), strict=True):
                answers |= zip(own, of_pool, strict=True)
        return [answers[at] for at in range(len(calls))]
