"""Reads a backup of one pool out of Redis, line by line."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Mapping
from importlib.metadata import version
from typing import Any, Final

import orjson

from bridge.backup.lines import FORMAT, Kind, message_line, schedule_line, written
from bridge.model.durations import format_instant
from bridge.model.message import Message
from bridge.service.service import Service
from bridge.store.kept.kept_fields import KeptFields
from bridge.store.kept.policies import StoredPolicies
from bridge.store.kept.schedules import StoredSchedules

_PAGE: Final = 500


class Backup:
    """Takes a backup of one pool. `counts` has the numbers of `topics`, `fields`, `schedules` and `messages` so far. It
    also counts `without_body`: messages that can't be restored, because Redis does not keep their bodies."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._context = service.context
        self.counts: Counter[str] = Counter()

    async def lines(self) -> AsyncIterator[bytes]:
        """Yields all lines of the backup. Each message is as Redis has it at the moment when the backup reads it. At
        most 8 MiB of bodies, or one larger body, are in memory.

        Raises:
            StoreUnavailable: Redis did not answer.
        """
        yield written(Kind.HEAD, await self._head())
        topics = await self._context.topics.names()
        policies = StoredPolicies(self._context.store, self._context.records.keys)
        for topic in topics:
            policy = await policies.get(topic)
            self.counts["topics"] += 1
            yield written(Kind.TOPIC, {"topic": topic, "policy": None if policy is None else orjson.loads(policy)})
        async for line in self._fields(topics):
            yield line
        async for line in self._schedules():
            yield line
        for topic in topics:
            async for message in self._messages(topic):
                self._count(message)
                yield message_line(message)
        yield written(Kind.END, self.counts)

    async def _head(self) -> Mapping[str, Any]:
        await self._context.store.learn_clock()
        return {
            "format": FORMAT,
            "version": version("delaybridge"),
            "taken_at": format_instant(int(self._context.store.clock.now_ms())),
            "prefix": self._context.records.keys.prefix,
            "pool": self._context.pool,
        }

    async def _fields(self, topics: list[str]) -> AsyncIterator[bytes]:
        fields = KeptFields(self._context.store, self._context.records.keys)
        namespaces = {topic.partition("/")[0] for topic in topics if "/" in topic}
        async for field in fields.all(namespaces | await fields.limited_namespaces(), self._context.pool):
            self.counts["fields"] += 1
            yield written(Kind.FIELD, field._asdict())

    async def _schedules(self) -> AsyncIterator[bytes]:
        stored = StoredSchedules(self._context.store, self._context.records.keys)
        for name in await stored.names():
            schedule = await stored.get(name)
            if schedule is not None:
                self.counts["schedules"] += 1
                yield schedule_line(schedule)

    async def _messages(self, topic: str) -> AsyncIterator[Message]:
        cursor: str | None = None
        while True:
            page = await self._service.lookup.page(
                topic, states=(), due_after_ms=None, due_before_ms=None, limit=_PAGE, cursor=cursor
            )
            for message in page.items:
                yield message
            if (cursor := page.next_cursor) is None:
                return

    def _count(self, message: Message) -> None:
        self.counts["messages"] += 1
        kept = message.envelope is not None and message.envelope.body is not None
        if not kept and needs_body(message):
            self.counts["without_body"] += 1


def needs_body(message: Message) -> bool:
    """Whether a restore needs the message's body to publish a copy: the message is live or a dead letter."""
    return not message.record.state.ended or message.record.is_dead_letter
