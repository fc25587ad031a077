"""Leases ready messages to pulls, from one topic or from several topics in order. If no message is ready, a pull waits
for the first message."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from time import monotonic
from typing import Any, Final

from bridge.metrics.http import WAITING_PULLS
from bridge.model.errors import BrokerUnavailable, QueueMissing, Unavailable
from bridge.model.time_limit import TimeLimit
from bridge.model.values import Leased
from bridge.service.context import Context
from bridge.service.known_topics import KnownTopics
from bridge.service.pulling.dispatcher import Dispatcher, Tools
from bridge.service.pulling.leasing import LeaseMs, LeaseTerms
from bridge.service.pulling.traced_leasing import leasing
from bridge.service.pulling.unacked_leases import UnackedLeases
from bridge.service.pulling.want import Want

_LOOK_AGAIN_S: Final = 1.0
"""How often a pull looks whether its paused topics are resumed."""


class Pulling:
    def __init__(self, context: Context, known_topics: KnownTopics, unacked: UnackedLeases) -> None:
        self._store = context.store
        self._records = context.records
        self._keys = context.records.keys
        self._declared = context.broker.declared
        self._check_broker = context.broker.check
        self._topics = context.topics
        self._known = known_topics
        broker = context.broker
        leases = leasing(context, unacked)
        self._tools = Tools(broker.taker, broker.feeds, broker.taking_guard, leases, context.topics)
        self._dispatchers: dict[str, Dispatcher] = {}
        self._checked_within_s = context.settings.answer_within_s

    async def pull(
        self, topics: Sequence[str], *, limit: int, wait_ms: int, lease_ms: LeaseMs, counted: bool = True
    ) -> list[Leased]:
        """Leases and returns up to `limit` messages, first from the earlier topics. If none is ready, waits up to
        `wait_ms` for the first one. Leases none of a paused topic. `lease_ms`: how long a lease lasts, or a function
        that reads this from the message; None: the topic's value. `counted` False: the deliveries use up no retries.

        If the caller is cancelled while it waits, its messages go to the next caller.

        Raises:
            Unavailable: no message was leased, because a server did not answer or clients have too many bytes of
                answers unread.
        """
        await self._check(topics)
        until_s = monotonic() + wait_ms / 1_000
        terms = LeaseTerms(lease_ms, counted, self._records.by())
        while True:
            leased: list[Leased] = []
            try:
                existing = await self._known.of(topics)
                waits = monotonic() < until_s and not self._tools.ending
                if not waits or len(topics) > 1:
                    await self._take(existing, limit, terms, leased)
                if waits and not leased:
                    missing = [topic for topic in topics if topic not in existing]
                    leased += await self._wait(existing, missing, limit, until_s, terms)
                    if len(topics) > 1 and 0 < len(leased) < limit:
                        await self._take(existing, limit, terms, leased)
            except QueueMissing:
                # Somebody removed a topic, or an operator deleted a ready queue.
                self._known.forget(topics)
            except Unavailable:
                # Messages that are already leased have to be handed out.
                if not leased:
                    raise
            if leased or monotonic() >= until_s or self._tools.ending:
                return leased

    @property
    def draining(self) -> bool:
        """Whether pulls no longer wait, because the process is about to end."""
        return self._tools.ending

    def end_waits(self) -> None:
        """Answers all waiting pulls now. Later pulls do not wait either."""
        self._tools.ending = True
        self._known.wake_all()
        for dispatcher in self._dispatchers.values():
            dispatcher.wake()

    async def finish(self) -> None:
        """Ends the waits. Returns once this process holds no message: each has its lease copy, or is back in its ready
        queue."""
        self.end_waits()
        await self._tools.finish()
        await self._tools.leasing.unacked.finish()

    async def _check(self, topics: Sequence[str]) -> None:
        """Checks that RabbitMQ and Redis answer, before any message is taken. If a message is taken and then requeued,
        RabbitMQ counts that as a delivery."""
        unheard = [
            topic for topic in topics if (found := self._dispatchers.get(topic)) is None or not found.has_just_leased
        ]
        try:
            async with TimeLimit(self._checked_within_s):
                if unheard:
                    await self._store.learn_clock([key for topic in unheard for key in self._keys.homes(topic)])
                await self._check_broker()
        except TimeoutError:
            raise BrokerUnavailable("RabbitMQ did not answer in time") from None

    async def _take(self, topics: Sequence[str], limit: int, terms: LeaseTerms, leased: list[Leased]) -> None:
        """Leases ready messages and adds them to `leased`, until it has `limit` messages."""
        for topic in topics:
            while len(leased) < limit:
                want = Want(limit - len(leased), terms)
                self._submit(topic, want)
                found = await want.answer
                leased += found
                if len(found) == want.dealt:
                    break  # otherwise some were ghosts, and the queue may have more messages

    async def _wait(
        self, existing: Sequence[str], missing: Sequence[str], limit: int, until_s: float, terms: LeaseTerms
    ) -> list[Leased]:
        """Waits for the first messages until `until_s`, a moment of `monotonic()`. Returns an empty list early if a
        topic of `missing` is created meanwhile, or after a second if all topics of `existing` are paused."""
        with WAITING_PULLS.track_inprogress(), self._known.awaiting(missing) as woken:
            open_topics = [topic for topic in existing if not (await self._topics.policy(topic)).paused]
            if not open_topics:
                # A paused topic may be resumed while a pull waits.
                pause_s = until_s - monotonic()
                with suppress(TimeoutError):
                    async with asyncio.timeout(min(pause_s, _LOOK_AGAIN_S) if existing else pause_s):
                        await woken.wait()
                return []
            # Each of several topics may have messages for this pull, but it takes those of one topic only.
            want = Want(limit, terms, waits=True, share=limit if len(open_topics) == 1 else 1)
            for topic in open_topics:
                self._submit(topic, want)
            # Several topics were looked at before.
            look = self._dispatchers[open_topics[0]].wake if len(existing) + len(missing) == 1 else None
            return await _answer(want, woken if missing else None, until_s - monotonic(), look)

    def _submit(self, topic: str, want: Want) -> None:
        dispatcher = self._dispatchers.get(topic)
        if dispatcher is None:

            def ended() -> None:
                del self._dispatchers[topic]

            queue = self._declared.ready_queue(topic)
            dispatcher = self._dispatchers[topic] = Dispatcher(topic, queue, self._tools, ended)
        dispatcher.submit(want)


async def _answer(
    want: Want, woken: asyncio.Event | None, wait_s: float, look: Callable[[], None] | None
) -> list[Leased]:
    """Waits for the answer, until `woken` is set or `wait_s` has passed. If the want is claimed by then, still waits
    for its answer. Otherwise returns an empty list.

    `look`: wakes the dispatcher. If the dispatcher has not looked for messages when the wait ends, the function waits
    until it has looked once: a message may be ready. None: the function does not wait for a look.
    """
    awaited: list[asyncio.Future[Any]] = [want.answer]
    if woken is not None:
        awaited.append(asyncio.ensure_future(woken.wait()))
    try:
        await asyncio.wait(awaited, timeout=wait_s, return_when=asyncio.FIRST_COMPLETED)
        if look is not None and not want.looked:
            want.waits = False
            look()
        return await want.answer if want.claimed or want.answer.done() or not want.waits else []
    finally:
        for one in awaited:
            one.cancel()
