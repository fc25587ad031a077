"""Dead letters: list them, replay them, drop them. Each stands in `dead.<topic>` until then."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace

from bridge.broker.copies.copies import from_properties
from bridge.broker.ready.taken import Taken, ack_all
from bridge.model.errors import BodyNotKept, NotFound, QueueMissing
from bridge.model.message import Copy, Message, Record, State, new_nonce
from bridge.model.values import Page
from bridge.service.context import Context
from bridge.service.lookup import Lookup
from bridge.service.successors import at_once, successor
from bridge.store.records import Outcome, read

_GROUP = 100


class Dead:
    def __init__(self, context: Context, lookup: Lookup) -> None:
        self._store = context.store
        self._records = context.records
        self._copy_publisher = context.broker.copy_publisher
        self._declared = context.broker.declared
        self._taker = context.broker.taker
        self._dead_letter_search = context.broker.dead_letter_search
        self._lookup = lookup
        self._max_retry = context.settings.max_retry

    async def page(self, topic: str, *, limit: int, cursor: str | None) -> Page:
        """Dead letters by due time, without those whose time to live ended them.

        Raises:
            InvalidRequest, StoreUnavailable
        """
        page = await self._lookup.page(
            topic, states=[State.DEAD], due_after_ms=None, due_before_ms=None, limit=limit, cursor=cursor
        )
        return replace(page, items=[message for message in page.items if message.record.forget_ms == 0])

    async def size(self, topic: str) -> int:
        """How many letters stand in the queue; 0 for a topic that there is not.

        Raises:
            BrokerUnavailable
        """
        try:
            return await self._declared.depth(self._declared.dead_queue(topic))
        except QueueMissing:
            return 0

    async def head(self, topic: str) -> str | None:
        """The id of the one that `replay_many` and `drop_many` begin with.

        Raises:
            Unavailable
        """
        await self._store.learn_clock(self._records.keys.homes(topic))
        try:
            taken = await self._taker.take(self._declared.dead_queue(topic), 1)
        except QueueMissing:
            return None
        for one in taken:
            await one.requeue()
        return self._copy(topic, taken[0]).id if taken else None

    async def replay(self, topic: str, message_id: str) -> Message:
        """Makes a dead letter ready again, its attempts starting anew.

        Raises:
            NotFound: there is no such dead letter.
            BodyNotKept: its copy is no longer in the queue, and its body was not kept.
            Unavailable
        """
        message = await self._dead(topic, message_id)
        record = message.record
        async with self._find(record) as taken:
            if taken is not None:
                copy = self._copy(topic, taken)
            elif message.envelope is not None and message.envelope.body is not None:
                letter = successor(record, message.envelope, nonce=record.nonce, attempt=1, due_ms=record.due_ms)
                copy = replace(letter, epoch=record.epoch)
            else:
                raise BodyNotKept("its copy is no longer in the dead-letter queue, and its body was not kept")
            (outcome,) = await self._replay([copy])
            if taken is not None:
                await taken.ack()
        if outcome.verdict != "replayed":
            raise NotFound(f"there is no dead letter {message_id!r} in the topic {topic!r}")
        return Message(record=outcome.found, envelope=copy.envelope)

    async def replay_many(
        self, topic: str, limit: int, *, max_retry: int | None = None, ttl_ms: int | None = None
    ) -> int:
        """Replays up to `limit` dead letters, the oldest first; how many there were. `max_retry`, `ttl_ms`: as they are
        from now on; None: as many retries as before, and no end.

        Raises:
            Unavailable: some may be replayed.
        """

        async def act(letters: list[Copy]) -> int:
            outcomes = await self._replay(letters, max_retry=max_retry, ttl_ms=ttl_ms)
            return sum(outcome.verdict == "replayed" for outcome in outcomes)

        return await self._sweep(topic, limit, act)

    async def drop(self, topic: str, message_id: str) -> Message:
        """Drops a dead letter.

        Raises:
            NotFound: there is no such dead letter.
            Unavailable
        """
        record = (await self._dead(topic, message_id)).record
        async with self._find(record) as taken:
            (answer,) = await self._store.run([self._records.drop(topic, message_id, epoch=record.epoch)])
            if taken is not None:
                await taken.ack()
        return Message(record=read(topic, message_id, answer).found, envelope=None)

    async def drop_many(self, topic: str, limit: int) -> int:
        """Drops up to `limit` dead letters, the oldest first; how many there were.

        Raises:
            Unavailable: some may be dropped.
        """

        async def act(letters: list[Copy]) -> int:
            await self._store.run([self._records.drop(topic, copy.id, epoch=copy.epoch) for copy in letters])
            return len(letters)

        return await self._sweep(topic, limit, act)

    async def _sweep(self, topic: str, limit: int, act: Callable[[list[Copy]], Awaitable[int]]) -> int:
        """Acts on up to `limit` dead letters in groups, and acknowledges each group when that is done."""
        await self._store.learn_clock(self._records.keys.homes(topic))
        await self._declared.ensure_topic(topic)
        count, left = 0, limit
        while left > 0:
            try:
                taken = await self._taker.take(self._declared.dead_queue(topic), min(left, _GROUP))
            except QueueMissing:
                await self._declared.renew_topic(topic)
                break
            if not taken:
                break
            left -= len(taken)
            try:
                count += await act([self._copy(topic, one) for one in taken])
            except BaseException:
                for one in taken:
                    await one.requeue()
                raise
            await ack_all(taken)
        return count

    async def _dead(self, topic: str, message_id: str) -> Message:
        message = await self._lookup.get(topic, message_id)
        if message.record.state is not State.DEAD or message.record.forget_ms:
            raise NotFound(f"there is no dead letter {message_id!r} in the topic {topic!r}")
        return message

    def _find(self, record: Record) -> AbstractAsyncContextManager[Taken | None]:
        def is_it(taken: Taken) -> bool:
            copy = self._copy(record.topic, taken)
            # A copy that was buried twice stands twice, and the record names one of them.
            return (copy.id, copy.epoch, copy.nonce) == (record.id, record.epoch, record.nonce)

        return self._dead_letter_search.find(self._declared.dead_queue(record.topic), is_it)

    async def _replay(
        self, letters: Sequence[Copy], *, max_retry: int | None = None, ttl_ms: int | None = None
    ) -> list[Outcome]:
        now_ms = int(self._store.clock.now_ms())
        copies = [
            replace(
                letter,
                epoch=letter.epoch + 1,
                nonce=new_nonce(),
                attempt=1,
                max_retry=letter.max_retry if max_retry is None else max_retry,
                due_ms=now_ms,
                expires_ms=0 if ttl_ms is None else now_ms + ttl_ms,
            )
            for letter in letters
        ]
        errors = await self._copy_publisher.publish([at_once(copy, now_ms) for copy in copies])
        for error in errors:
            if error is not None:
                raise error
        answers = await self._store.run(
            [
                self._records.replay(
                    letter, next_nonce=copy.nonce, max_retry=copy.max_retry, expires_ms=copy.expires_ms
                )
                for letter, copy in zip(letters, copies, strict=True)
            ]
        )
        return [read(letter.topic, letter.id, answer) for letter, answer in zip(letters, answers, strict=True)]

    def _copy(self, topic: str, taken: Taken) -> Copy:
        now_ms = int(self._store.clock.now_ms())
        return from_properties(topic, taken.properties, taken.message.body, now_ms=now_ms, max_retry=self._max_retry)
