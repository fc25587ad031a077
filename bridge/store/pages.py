"""Reads the index of a topic across all its buckets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import merge
from itertools import islice

from bridge.store.client import Store
from bridge.store.keys import INDEXES
from bridge.store.messages.parts import Entry
from bridge.store.messages.records import Records

_AGES = 2


async def page(
    store: Store,
    records: Records,
    topic: str,
    *,
    states: str,
    due_from_ms: int,
    due_to_ms: int,
    cursor: Entry | None,
    limit: int,
) -> list[Entry]:
    """Returns the first entries behind the cursor, up to `limit`. Fewer entries mean that the index ends there.
    `states`: the codes of the wanted states as digits, such as `12`. `due_from_ms`, `due_to_ms`: both inclusive, in
    Unix ms. `cursor` None: from the index's start.

    Raises:
        StoreUnavailable: Redis did not answer.
    """
    calls = [
        records.page(
            topic,
            bucket,
            states=states,
            due_from_ms=due_from_ms,
            due_to_ms=due_to_ms,
            cursor=cursor,
            limit=limit,
        )
        for bucket in range(records.keys.buckets)
    ]
    parts = [[(due_ms, message_id) for due_ms, message_id, _ in part.entries] for part in await store.run(calls)]
    return parts[0] if len(parts) == 1 else list(islice(merge(*parts), limit))


@dataclass(frozen=True, slots=True)
class Counts:
    """The counts of one topic's messages (lua/counts.lua). `by_state`: seven counts, in the order of `INDEXES`.
    `by_due`: the waiting messages that are overdue, then the messages due before each edge and not before the previous
    edge, then all later messages. `oldest_waiting_ms`, `oldest_ready_ms`: for how many ms the oldest waiting or ready
    message has been due; 0: not due, or there is no message."""

    by_state: list[int]
    by_due: list[int]
    oldest_waiting_ms: int
    oldest_ready_ms: int


async def counts(store: Store, records: Records, topics: Sequence[str], *, edges_ms: tuple[int, ...]) -> list[Counts]:
    """Returns the counts of each topic. `edges_ms`: the edges of `Counts.by_due`, as ascending distances from now in
    ms.

    Raises:
        StoreUnavailable: Redis did not answer.
    """
    buckets = records.keys.buckets
    calls = [records.counts(topic, bucket, edges_ms=edges_ms) for topic in topics for bucket in range(buckets)]
    answers = await store.run(calls)
    return [_all_buckets(answers[at : at + buckets]) for at in range(0, len(answers), buckets)]


def _all_buckets(answers: Sequence[Sequence[int]]) -> Counts:
    columns = list(zip(*answers, strict=True))
    sums = [sum(column) for column in columns[1:-_AGES]]
    return Counts(sums[: len(INDEXES)], sums[len(INDEXES) :], *(max(column) for column in columns[-_AGES:]))
