"""Dispatches the messages of one topic to the pulls of this process, in groups and in the pulls' order of arrival.

Pulls that arrive while messages are taken or leased join the next group. For each group the dispatcher takes messages
once, runs one script, and publishes together those lease copies that can't wait.

Messages are taken in two ways. While few pulls come, one take gets the ready messages for them. Pulls that wait, and
pulls that keep coming, share a feed: a consumer whose window is as large as the pulls need. A dispatcher ends once it
has had no open pull for 0.1 s, or when a server fails. The next pull begins a new dispatcher.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from time import monotonic
from typing import Any, Final

from bridge.broker.put_aside import TakingGuard
from bridge.broker.ready.feed import Feed, Feeds
from bridge.broker.ready.taken import Taken
from bridge.broker.ready.taker import Taker
from bridge.model import background
from bridge.model.errors import BrokerUnavailable
from bridge.model.values import Effective
from bridge.service.pulling.dealing import LOOK_EVERY_S, MOST, Demand, serves_all, window_for
from bridge.service.pulling.lease_groups import LeaseGroups
from bridge.service.pulling.leasing import Leasing
from bridge.service.pulling.want import Want
from bridge.service.topics.topics import Topics

_LINGER_S: Final = 0.1
"""How long messages stay in the feed for a pull that may come next. Meanwhile no other process can take them."""

_HEARD_S: Final = 0.1
"""For this long after a lease, pulls assume that RabbitMQ and Redis answer."""

_SILENT_S = 20.0
"""A feed that gets no message for this long is opened again, however many pulls come. Its node may have lost the queue,
or a message on its way."""


class Tools:
    """The objects that all dispatchers of a process share. `ending`: the process stops, so pulls no longer wait."""

    def __init__(self, taker: Taker, feeds: Feeds, guard: TakingGuard, leasing: Leasing, topics: Topics) -> None:
        self.taker, self.feeds, self.guard, self.leasing, self.topics = taker, feeds, guard, leasing, topics
        self.ending = False
        self._under_way: set[asyncio.Task[None]] = set()

    def begin(self, work: Coroutine[Any, Any, None]) -> None:
        """Begins a task that works for pulls. The task goes on even if these pulls are cancelled."""
        task = background.begin(work, "pulls of a topic")
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    async def finish(self) -> None:
        """Waits until all tasks of `begin` have ended."""
        while self._under_way:
            await asyncio.wait(self._under_way)


class Dispatcher:
    """Serves the pulls of one topic, in the order of arrival."""

    def __init__(self, topic: str, queue: str, tools: Tools, ended: Callable[[], None]) -> None:
        """`queue`: the topic's ready queue. `ended`: called when the dispatcher ends, so the next pull needs a new
        one."""
        self._topic, self._queue, self._tools, self._ended = topic, queue, tools, ended
        self._changed = asyncio.Event()
        self.groups = LeaseGroups(topic, tools.leasing, tools.begin, self._changed.set)
        self._wants: list[Want] = []
        self._wanted_s = monotonic()
        self._demand = Demand()
        self._feed: Feed | None = None
        tools.begin(self._run())

    def submit(self, want: Want) -> None:
        """Adds a pull, which is served after earlier pulls."""
        self._wants.append(want)
        want.on_done(self._changed.set)
        self._demand.note(monotonic())
        self._changed.set()

    @property
    def has_just_leased(self) -> bool:
        """Whether pulls keep coming, and the last lease is at most 0.1 s ago. Then both servers surely answer."""
        return self._steady() and monotonic() - self.groups.heard_s < _HEARD_S

    def wake(self) -> None:
        """Makes the dispatcher look at its pulls again, because `Tools.ending` or a pull's `Want.waits` has changed."""
        self._changed.set()

    async def _run(self) -> None:
        crashes = self._tools.guard.crashes
        try:
            while await self._round():
                pass
        except Exception as error:  # noqa: BLE001 - every pull gets it
            if isinstance(error, BrokerUnavailable) and self._tools.guard.crashes > crashes:
                # RabbitMQ may be unable to deliver one of the messages, and would close the connection again.
                await self._tools.guard.look(self._queue)
            for want in self._open():
                want.fail(error)
        # Called before the feed is closed, as that may fail: no pull may join a dispatcher that has ended.
        self._ended()
        await self._close()

    async def _round(self) -> bool:
        """Takes or deals messages for the waiting pulls once. Returns False if no pull has come for a while, so the
        dispatcher ends."""
        self._changed.clear()
        if not self._open():
            return await self._idle()
        self._wanted_s = monotonic()
        for want in self._open():
            want.refuse_at_limit()  # before anything is taken for it
        if not self._open():
            return True
        policy = await self._tools.topics.policy(self._topic)
        if policy.paused or self._tools.ending:
            await self._close()
        if policy.paused:
            for want in self._open():
                want.end([])
        elif self.groups.in_flight:
            # One group at a time: then the next groups are larger, and cost less for each message.
            await self._changed.wait()
        elif self._feed is not None:
            await self._deal(self._feed, policy)
        elif self._steady() and not self._tools.ending:
            await self._open_feed()
        elif not await self._take(policy):
            self._found_none()
            if self._open():
                await self._open_feed()
        return True

    async def _idle(self) -> bool:
        left_s = self._wanted_s + _LINGER_S - monotonic()
        if self._feed is not None and (left_s <= 0 or not self._steady() or self._tools.ending):
            await self._close()
            return True
        if left_s <= 0 or self._tools.ending:
            return False
        await self._until_changed(left_s)
        return True

    def _found_none(self) -> None:
        """Answers the pulls that do not wait, as no message is ready. The others go on waiting."""
        for want in self._open():
            if want.waits and not self._tools.ending:
                want.looked = True
            else:
                want.end([])

    async def _take(self, policy: Effective) -> bool:
        """Takes ready messages, and begins to lease them. Returns whether there were any."""
        wanted = sum(want.limit for want in self._open())
        taken = await self._tools.taker.take(self._queue, min(wanted, MOST))
        self.groups.begin(taken, self._open(), policy)
        return bool(taken)

    async def _open_feed(self) -> None:
        self._feed = await self._tools.feeds.open(self._queue, self._window(), self._changed.set)

    async def _deal(self, feed: Feed, policy: Effective) -> None:
        """Deals the messages that the feed holds to the pulls. If the feed holds none, answers the pulls that do not
        wait; other pulls go on waiting."""
        if feed.error is not None:
            raise feed.error
        wants, ready = self._open(), 0
        wanted = self._window()
        size = self._demand.resized(feed.window, wanted, monotonic())
        if feed.is_outdated:
            await feed.cancel()  # the buffered messages are dealt first
        elif size != feed.window:
            await feed.resize(size)
        elif len(feed.buffer) < sum(want.limit for want in wants if not want.waits):
            ready = await feed.gather()
        limits = [want.limit for want in self._open()]
        if feed.buffer and not self._steady() and serves_all(limits, len(feed.buffer)):
            # The feed ends before the leases acknowledge its messages: RabbitMQ would send further ones that nobody
            # wants.
            taken = await self._end_feed(feed)
            self.groups.begin(taken, self._open(), policy)
        elif feed.buffer:
            self.groups.begin(feed.take(sum(limits)), self._open(), policy)
        elif feed.is_outdated:
            await self._close()
        elif not (ready and await self._take(policy)):
            self._found_none()
            silent_in_s = feed.heard_s + _SILENT_S - monotonic()
            look_in_s = LOOK_EVERY_S if 2 * wanted < size else _SILENT_S
            if silent_in_s <= 0 or not await self._until_changed(min(silent_in_s, look_in_s)):
                await self._close(silent=silent_in_s <= look_in_s)

    async def _end_feed(self, feed: Feed, *, silent: bool = False) -> list[Taken]:
        """Ends the feed, and returns the messages that the feed still held. `silent`: the feed got no message for long,
        so new feeds use another channel."""
        self._feed = None
        try:
            await feed.cancel()
        finally:
            feed.leave(silent=silent)
        return feed.take(len(feed.buffer))

    async def _close(self, *, silent: bool = False) -> None:
        """Ends the open feed, if there is one, and puts the messages that it held back into the ready queue. `silent`:
        the feed got no message for long, so new feeds use another channel."""
        if self._feed is None:
            return
        lost = self._feed.error is not None
        held = await self._end_feed(self._feed, silent=silent)
        if not lost:
            await self.groups.give_back(held)
            return
        for one in held:
            # A publish would declare the queue again. Somebody may have removed it together with its topic.
            one.requeue()

    async def _until_changed(self, seconds: float) -> bool:
        """Waits at most `seconds` for something new to do, such as a new pull or a new delivery. Returns False if
        nothing came in this time."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                return await self._changed.wait()
        return False

    def _window(self) -> int:
        return window_for(
            (want.share for want in self._open()),
            self.groups.out,
            steady=self._steady(),
            leased=self._tools.leasing.unacked.count(self._queue),
        )

    def _steady(self) -> bool:
        return self._demand.is_steady(monotonic())

    def _open(self) -> list[Want]:
        """The pulls that still want messages, in the order of arrival."""
        self._wants = [want for want in self._wants if want.is_open]
        return self._wants
