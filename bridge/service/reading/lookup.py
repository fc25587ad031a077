"""Looks up messages: by id, or a page by due time."""

from __future__ import annotations

from collections.abc import Sequence

from bridge.model.errors import NotFound
from bridge.model.message import SHOWN_STATES, Message, State
from bridge.model.values import Page
from bridge.service.context import Context
from bridge.service.reading.cursors import make_cursor, read_cursor
from bridge.service.reading.portions import portions
from bridge.store import pages
from bridge.store.messages.outcomes import read_envelope

_LATEST_MS = 2**53


class Lookup:
    """Looks up the messages of one pool in Redis."""

    def __init__(self, context: Context) -> None:
        self._store = context.store
        self._records = context.records

    async def get(self, topic: str, message_id: str) -> Message:
        """Returns one message.

        Raises:
            NotFound: Redis has no record of this id in the topic, or has it no longer.
            StoreUnavailable: Redis did not answer.
        """
        (message,) = await self.get_many(topic, [message_id])
        if message is None:
            raise NotFound(f"there is no message {message_id!r} in the topic {topic!r}")
        return message

    async def get_many(self, topic: str, message_ids: Sequence[str]) -> list[Message | None]:
        """Returns the messages in the order of the ids; None for an id without a record.

        Raises:
            StoreUnavailable: Redis did not answer.
        """
        looked = await self._store.run([self._records.look(topic, message_id) for message_id in message_ids])
        return [
            None if one.record is None else Message(record=one.record, envelope=read_envelope(one)) for one in looked
        ]

    async def find(self, topics: Sequence[str], message_id: str) -> list[Message]:
        """Returns the messages with this id in the given topics. Leaves out topics that have no such message.

        Raises:
            StoreUnavailable: Redis did not answer.
        """
        looked = await self._store.run([self._records.look(topic, message_id) for topic in topics])
        return [Message(record=one.record, envelope=read_envelope(one)) for one in looked if one.record is not None]

    async def page(
        self,
        topic: str,
        *,
        states: Sequence[State],
        due_after_ms: int | None,
        due_before_ms: int | None,
        limit: int,
        cursor: str | None,
    ) -> Page:
        """Returns a page of messages by due time. The page ends before its bodies exceed 8 MiB, or after one larger
        body.

        Args:
            states: empty for all states.
            due_after_ms, due_before_ms: Unix milliseconds; both bounds are exclusive. None: no bound.
            cursor: the `next_cursor` of the previous page; None: the first page.

        Raises:
            InvalidRequest: no page gave this cursor.
            StoreUnavailable: Redis did not answer.
        """
        entries = await pages.page(
            self._store,
            self._records,
            topic,
            states="".join(str(int(state)) for state in states or SHOWN_STATES),
            due_from_ms=0 if due_after_ms is None else due_after_ms + 1,
            due_to_ms=_LATEST_MS if due_before_ms is None else due_before_ms - 1,
            cursor=None if cursor is None else read_cursor(cursor),
            limit=limit,
        )
        ids = [message_id for _, message_id in entries]
        weighed = await self._store.run([self._records.weigh(topic, message_id) for message_id in ids])
        first = next(portions([outcome.extra for outcome in weighed]), slice(0, 0))
        items = [message for message in await self.get_many(topic, ids[first]) if message is not None]
        more = first.stop < len(entries) or len(entries) == limit
        return Page(items=items, next_cursor=make_cursor(*entries[first.stop - 1]) if more else None)
