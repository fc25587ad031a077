"""Reads the index of a topic across all its buckets."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import merge
from itertools import islice
from typing import Any

from bridge.store.client import Store
from bridge.store.records import Records

Entry = tuple[int, str]
"""A due moment in Unix ms and an id. Entries are sorted by both. Ids are ASCII, so text and bytes sort alike."""


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
    """Returns the first entries behind the cursor. They are fewer than the limit only at the end of the index.

    Raises:
        StoreUnavailable
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
    return merged(await store.run(calls), limit)


def merged(answers: Iterable[Sequence[Any]], limit: int) -> list[Entry]:
    """Merges the pages of all buckets into one."""
    parts = [
        [(due_ms, message_id.decode()) for message_id, due_ms in zip(answer[::2], answer[1::2], strict=True)]
        for answer in answers
    ]
    return parts[0] if len(parts) == 1 else list(islice(merge(*parts), limit))


async def counts(
    store: Store, records: Records, topics: Sequence[str], *, edges_ms: tuple[int, ...]
) -> list[list[int]]:
    """Returns the counts of lua/counts.lua for each topic, without the time.

    Raises:
        StoreUnavailable
    """
    buckets = records.keys.buckets
    calls = [records.counts(topic, bucket, edges_ms=edges_ms) for topic in topics for bucket in range(buckets)]
    answers = await store.run(calls)
    return [
        [sum(column) for column in zip(*(answer[1:] for answer in answers[at : at + buckets]), strict=True)]
        for at in range(0, len(answers), buckets)
    ]
