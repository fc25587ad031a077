"""Connects to RabbitMQ and puts this package's parts together from settings."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from itertools import starmap
from random import randrange
from time import monotonic
from typing import TYPE_CHECKING

from bridge.broker.client.connection import BrokerConnection, translated
from bridge.broker.client.delivery import Delivery
from bridge.broker.client.publisher import Outgoing, Publisher
from bridge.broker.copies.classify import Arrival, Unusable, classify, submitted
from bridge.broker.copies.properties import Message, Properties, deaths
from bridge.broker.copies.submissions import Submission
from bridge.broker.copy_publisher import CopyPublisher
from bridge.broker.declared.declared import Declared
from bridge.broker.declared.findings import Finding, in_words, not_empty, undeclared, unreadable
from bridge.broker.declared.refused import oldest_reason
from bridge.broker.declared.topic_queues import Existing, everything
from bridge.broker.put_aside import PutAside, QueueReader, TakingGuard
from bridge.broker.ready.dead_letter_search import DeadLetterSearch
from bridge.broker.ready.feed import Feeds
from bridge.broker.ready.taker import Taker
from bridge.broker.target_publisher import TargetPublisher
from bridge.broker.traced_publisher import TracedCopyPublisher
from bridge.broker.unconfirmed import Unconfirmed
from bridge.model.breaker import Breaker, BreakerState
from bridge.model.errors import BrokerUnavailable, BrokerUnfit, QueueMissing, Unroutable
from bridge.settings.settings import Settings
from topology import plan
from topology.deaths import left_of_key_ms
from topology.names import Names
from topology.report import Difference
from topology.verify import check_server, managed, verify, vhost_of

if TYPE_CHECKING:
    from bridge.tracing.deliveries import Deliveries

_VERIFY_TIMEOUT_S = 10.0
_FEW = 100  # messages of `delay.refused`, of which only the oldest is read

# The time limit for publishes of loops, for which no client waits. After it a publish counts as lost and is repeated.
_RELEASE_TIMEOUT_MS = 10_000


@dataclass(frozen=True, slots=True)
class Inspection:
    """The result of one inspection of RabbitMQ. `findings`: the faults that it found. `mended`: the names of missing
    objects that it has declared again."""

    findings: list[Finding]
    mended: list[str]


class Broker:
    """RabbitMQ, with one connection for each purpose. The purposes are publishes of requests, publishes of loops,
    messages that requests take, feeds of pulls, searches of dead letters, and each `reader`.

    Publishes have their own connections, because RabbitMQ blocks publishers by connection, and acks have to go on.
    Requests and loops do not share a connection, because a request gives up far sooner than a loop. Feeds have a
    separate connection, because clients decide how many pulls wait. Each reader and the searches have separate
    connections, because RabbitMQ closes a connection over a message that it can't deliver.
    """

    def __init__(self, settings: Settings, listed: Existing, tracing: Deliveries | None = None) -> None:
        """`listed`: a function that returns which of the given topics are on the list of topics; loops publish only to
        these. `tracing`: gets the spans of releases; None: deliveries are not traced."""
        self._names = Names(
            prefix=settings.prefix, ready=settings.ready_prefix, dead=settings.dead_prefix, lanes=settings.lanes
        )
        timeout_ms = settings.broker_timeout
        self._settings = settings
        self._tracing = tracing
        self.breaker = Breaker()

        nodes = settings.amqp_url.split(",")
        # Each process begins at a random node. Otherwise the first node would have all connections, which would then be
        # lost together.
        first = randrange(len(nodes))
        nodes = nodes[first:] + nodes[:first]

        about = {"version": version("delaybridge"), "prefix": settings.prefix}

        def connection(purpose: str) -> BrokerConnection:
            return BrokerConnection(
                nodes,
                purpose=purpose,
                timeout_ms=timeout_ms,
                check=check_server,
                breaker=self.breaker,
                tls=settings.tls,
                about=about,
            )

        self._connection = connection
        self._publishing = connection("publishing")
        self.consuming = connection("consuming")
        self._releasing = connection("releasing")
        self._polling = connection("polling")
        self.declared = Declared(
            self._publishing,
            self._names,
            delivery_limit=settings.delivery_limit,
            publishers=(self._releasing,),
            listed=listed,
        )
        self._unconfirmed = Unconfirmed(self._names)
        of_requests = partial(Publisher, self._publishing, timeout_ms=timeout_ms, answers=self._unconfirmed)
        of_loops = partial(Publisher, self._releasing, timeout_ms=_RELEASE_TIMEOUT_MS, answers=self._unconfirmed)
        self._targets = TargetPublisher(self._names, of_loops(to_others=True))
        self.copy_publisher = self._copy_publisher(of_requests(), everything)
        self._probing = of_requests(channels=2)
        self.releases = self._copy_publisher(of_loops(), listed)
        self.taker = Taker(self.consuming, timeout_ms=timeout_ms)
        self.feeds = Feeds(self._polling, timeout_ms=timeout_ms)
        self._put_aside = PutAside(self.releases.refuse, settings.tls)
        self.taking_guard = TakingGuard((self.consuming, self._polling), self._put_aside)
        self._searching = connection("searching")
        search_guard = TakingGuard((self._searching,), self._put_aside)
        self.dead_letter_search = DeadLetterSearch(self._searching, search_guard)
        self._readers: dict[str, QueueReader] = {}  # by queue
        # The latest answers of the management API, by question: some are asked only once.
        self._answers: dict[str, list[Difference]] = {}

    def _copy_publisher(self, publisher: Publisher, existing: Existing) -> CopyPublisher:
        parts = (self.declared, self._names, publisher, self._targets, existing)
        if self._tracing is None:
            return CopyPublisher(*parts, bundles=self._settings.bundles)
        return TracedCopyPublisher(*parts, bundles=self._settings.bundles, tracing=self._tracing)

    async def start(self) -> None:
        """Declares all objects except the queues of topics, and checks the broker.

        Raises:
            BrokerUnavailable: RabbitMQ is away, or does not answer in time.
            BrokerUnfit: the bridge can't keep its promises on this RabbitMQ: it is too old or broken, or lacks a
                feature flag.
        """
        await self.declared.wheel.ensure()
        async with translated(_VERIFY_TIMEOUT_S):
            report = await verify(await self._publishing.raw_connection(), plan.Plan())
        if report.findings:
            raise BrokerUnfit("; ".join(str(finding) for finding in report.findings))

    def reader(self, queue: str, purpose: str) -> QueueReader:
        """Returns the reader of one of the bridge's queues; each queue has one reader. `purpose`: part of the name that
        RabbitMQ shows for the reader's connection."""
        if queue not in self._readers:
            self._readers[queue] = QueueReader(self._connection(purpose), queue, self._put_aside)
        return self._readers[queue]

    def classifier(self, lane: int) -> Callable[..., Arrival]:
        """Returns a function that says what a delivery at the lane's checkpoint is. The function takes the message, and
        `now_ms` in Unix ms."""
        return partial(classify, self._names.in_lane(lane))

    def submitted(self, message: Message, *, now_ms: int) -> Submission | Unusable:
        """Reads a delivery of the ingress queue. Returns `Unusable` if the bridge can't accept the message. `now_ms`:
        Unix ms."""
        return submitted(self._names, message, now_ms=now_ms)

    def has_waited(self, delivery: Delivery, message_id: str) -> bool:
        """Whether a message came out of the wheel directly into its ready queue, after its whole delay. `message_id`:
        the message's id, which selects the lane."""
        names, died = self._names.lane_for(message_id), deaths(delivery.properties.headers)
        return left_of_key_ms(names, delivery.routing_key, died) == 0

    async def inspect(
        self, topics: Sequence[str], listed: Callable[[], Awaitable[Collection[str]]], *, whole: bool
    ) -> Inspection:
        """Checks the objects on the broker, declares the missing ones, and returns what it found.

        `topics`: the topics that Redis lists; their queues must exist. `listed`: a function that reads this list again.
        It is called before a missing queue is declared, because a topic may have been removed meanwhile. `whole`: also
        checks properties that can't change while an object exists.

        Raises:
            Unavailable: RabbitMQ or Redis is away.
        """
        wanted = self.declared.wanted(topics)
        await self.declared.wheel.lanes.refresh()
        connection = await self._publishing.raw_connection()
        if self._settings.management_url is not None:
            async with translated(_VERIFY_TIMEOUT_S):
                url, tls = self._settings.management_url, self._settings.tls
                self._answers |= await managed(url, vhost_of(connection), wanted, often=not whole, tls=tls)
        findings = [finding for answer in self._answers.values() for finding in answer]
        unbound = [finding for finding in findings if finding.found == "missing"]
        refused = self.reader(self._names.refused, "watching")
        await refused.look(_FEW)
        if (reason := await oldest_reason(refused.connection, self._names.refused)) is not None:
            findings.append(not_empty(self._names.refused, reason))
        mended = await self.declared.mend(wanted, listed)
        gone = mended.missing
        bound = [finding.name for finding in unbound if gone.isdisjoint(_ends_of(finding.name))]
        self.declared.note_existing(topic for topic in topics if self._names.ready_queue(topic) not in gone)
        findings = [finding for finding in findings if finding not in unbound]
        findings += undeclared(mended, self._topic_of)
        crashing = starmap(unreadable, self._put_aside.failing.items())
        return Inspection(findings=[*in_words(findings), *crashing], mended=[*mended.declared, *bound])

    def _topic_of(self, queue: str) -> str | None:
        return self._names.topic_of_ready_queue(queue) or self._names.topic_of_dead_queue(queue)

    async def check(self) -> None:
        """Checks that RabbitMQ takes messages. Pings RabbitMQ only if a call has timed out and RabbitMQ has answered no
        call since. Otherwise relies on the state of the open connection.

        Raises:
            BrokerUnavailable: RabbitMQ is away, or blocks publishers.
        """
        await self._check(ask=self.breaker.state is not BreakerState.CLOSED)

    async def probe(self) -> list[Finding]:
        """Publishes an empty message to each of the bridge's two probe queues, over the connection of sends, and waits
        for the confirms. If the connection is lost, tries each other node once.

        Returns:
            One finding that names the queues which have not confirmed in the last minute: probe queues, and any other
            queue that the bridge publishes to. No finding if all have confirmed.

        Raises:
            BrokerUnavailable: RabbitMQ is away, frozen or cut off from its majority, blocks publishers, or refuses the
                bridge's user.
        """
        for left in reversed(range(self._publishing.nodes)):
            try:
                return await self._probe()
            except BrokerUnavailable:
                if not left or self._publishing.is_open:
                    self._unconfirmed.forget_all()
                    raise
        return []

    async def _probe(self) -> list[Finding]:
        await self._check(ask=False)
        called_s = monotonic()
        probes = [Outgoing("", queue, Properties(message_id=queue), b"") for queue in self._names.probes]
        # In bursts of their own: a queue that hangs may hold back the rest of its burst.
        errors = [error for (error,) in await asyncio.gather(*(self._probing.publish([probe]) for probe in probes))]
        # A queue that somebody has deleted is no failure: RabbitMQ has answered, and the watch reports the queue.
        failed = [error for error in errors if error is not None and not isinstance(error, Unroutable)]
        if failed and self._publishing.confirmed_s < called_s:
            raise failed[0]
        # The publisher notes no failure while only the other probe confirms, as that comes too early in the wait.
        self._unconfirmed.note(probes, errors)
        return self._unconfirmed.findings()

    async def _check(self, *, ask: bool) -> None:
        await self.declared.wheel.ensure()
        if self.is_blocked:
            raise BrokerUnavailable("RabbitMQ blocks publishers: a memory or disk alarm")
        if ask:
            await self._publishing.ping()

    @property
    def is_blocked(self) -> bool:
        """Whether RabbitMQ blocks publishers, as far as the open connection knows."""
        return self._publishing.is_blocked

    async def depths(self) -> dict[str, int]:
        """Returns the number of messages in the bridge's own queues, by these names: `checkpoint` (all lanes together),
        `acks`, `refused`, `ingress` and `unroutable`. Unacknowledged messages, which bridges hold, do not count. A
        queue that is missing has no entry.

        Raises:
            BrokerUnavailable: RabbitMQ is away, or does not answer in time.
        """
        depths: dict[str, int] = {}
        with suppress(QueueMissing):
            depths["checkpoint"] = await self.declared.checkpoint_depth()
        names = self._names
        own = {"acks": names.acks, "refused": names.refused, "ingress": names.ingress, "unroutable": names.unroutable}
        for name, queue in own.items():
            with suppress(QueueMissing):
                depths[name] = await self.declared.depth(queue)
        return depths

    async def slot_depths(self) -> dict[str, tuple[int, int]]:
        """Counts the messages in each slot, in all lanes together. A bundle counts as one.

        Returns:
            For each slot, by its name in the first lane: its wait in ms and the number of messages. The shortest wait
            is first.

        Raises:
            BrokerUnavailable: RabbitMQ is away, or does not answer in time.
        """
        await self.declared.wheel.lanes.refresh()
        return await self.declared.slot_depths()

    async def close(self) -> None:
        """Closes all connections. RabbitMQ requeues unacknowledged deliveries."""
        for reader in self._readers.values():
            await reader.connection.drop()
        await self._searching.drop()
        await self.consuming.drop()
        await self._polling.drop()
        await self._releasing.drop()
        await self._publishing.drop()


def _ends_of(binding: str) -> tuple[str, str]:
    """Returns the source and the destination of a binding. `binding`: the name of a finding, such as `binding delay
    --0.#--> delay.days`."""
    source, _, rest = binding.removeprefix("binding ").partition(" --")
    return source, rest.rpartition("--> ")[2]
