"""Keeps the deliveries of new leases unacknowledged: a message that is settled soon needs no lease copy.

    leased ──> settled through this process ──────────────────> acknowledged
       └─────> `lease_copy_after` later: ended elsewhere ─────> acknowledged
                                         still leased ─────> lease copy published and named ──> acknowledged

If the process dies, RabbitMQ redelivers these messages. Their records name lease copies that were never published. The
process that takes such a delivery publishes the lease copy (`lease_copies.py`). So the lease ends at its planned
moment.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic
from typing import Final

from bridge.broker.ready.taken import Taken, ack_all
from bridge.model import log_scope
from bridge.model.errors import BrokerUnavailable, Unavailable
from bridge.model.message import Copy, Record
from bridge.model.part_state import OK
from bridge.service.context import Context
from bridge.service.health.supervisor import Status
from bridge.service.protocol.succession import Succession
from bridge.service.protocol.superseded import superseded
from bridge.service.pulling.lease_copies import late_step

MOST: Final = 1_024
"""The most deliveries of one pool that a process keeps unacknowledged."""

MOST_OF_QUEUE: Final = 128
"""The most deliveries of one queue that a process keeps unacknowledged. They count in the window of the queue's feed,
the consumer that pulls share."""

LARGEST: Final = 16_384
"""The longest body of a delivery that is kept unacknowledged, in bytes. So the deliveries of one pool take at most 16
MiB together."""

_TOGETHER_S: Final = 0.005
"""How long a settled delivery waits for other settled deliveries. One frame then acknowledges all; RabbitMQ needs time
for each ack frame."""

_RETRY_S: Final = 0.5


_Name = tuple[str, str, int]
"""Topic, id, and when the message was created: after a loss of Redis, two messages may have one id."""


@dataclass(frozen=True, slots=True)
class _Lease:
    """One lease. `copy`: its lease copy. `since_s`, `until_s`: its begin and end by `monotonic()`, because the clock of
    Redis may be set meanwhile."""

    copy: Copy
    delivery: Taken
    since_s: float
    until_s: float


class UnackedLeases:
    """Keeps the unacknowledged deliveries of one pool in this process, the oldest first, until they are
    acknowledged."""

    def __init__(self, context: Context) -> None:
        self._store = context.store
        self._records = context.records
        self._succession = Succession.of_copies(context)
        self._after_ms = context.settings.lease_copy_after
        self.status = Status(context.part_name("leases"), state=OK, retry_s=_RETRY_S)
        self._leases: dict[_Name, _Lease] = {}
        self._of_queue: Counter[str] = Counter()
        self._ending = asyncio.Event()
        self._running: asyncio.Task[None] | None = None
        self._settled: list[_Lease] = []
        self._acknowledging: asyncio.Task[None] | None = None

    def count(self, queue: str) -> int:
        """How many deliveries of the queue are unacknowledged."""
        return self._of_queue[queue]

    def room(self, queue: str) -> int:
        """How many more deliveries of the queue may stay unacknowledged, by `MOST` and `MOST_OF_QUEUE`. 0 while the
        process ends, and if the setting `lease_copy_after` is 0."""
        if self._ending.is_set() or not self._after_ms:
            return 0
        return max(0, min(MOST - len(self._leases), MOST_OF_QUEUE - self._of_queue[queue]))

    def fits(self, copy: Copy, lease_ms: int) -> bool:
        """Whether the delivery of this copy may stay unacknowledged: its lease is longer than twice the setting
        `lease_copy_after`, and its body has at most `LARGEST` bytes. False for a copy that an AMQP client published: it
        has no epoch, so a record could not tell it from other copies."""
        return copy.epoch > 0 and lease_ms > 2 * self._after_ms and len(copy.envelope.body or b"") <= LARGEST

    def add(self, copy: Copy, delivery: Taken, lease_ms: int) -> None:
        """Takes over the delivery of a lease that has just begun. `copy`: the lease copy that its record names.
        `lease_ms`: how long the lease lasts."""
        former = self._leases.get(_name(copy))
        if former is not None:
            self._acknowledge([former])
        now_s = monotonic()
        self._leases[_name(copy)] = _Lease(copy, delivery, now_s, now_s + lease_ms / 1_000)
        self._of_queue[delivery.queue] += 1
        if self._running is None or self._running.done():
            self._running = log_scope.shared_task(self._run())

    def settled(self, records: Iterable[Record]) -> None:
        """Acknowledges deliveries whose leases have ended. `records`: the new records of settled messages."""
        self._acknowledge(
            lease
            for record in records
            if (lease := self._leases.get(_name(record))) is not None
            # An ended record of an earlier epoch is of another message: Redis may have lost this lease's record.
            and record.epoch >= lease.copy.epoch + (not record.state.ended)
        )

    async def finish(self) -> None:
        """Publishes the lease copies of all leases without delay, also of leases that are added later. Returns once no
        delivery is left."""
        self._ending.set()
        if self._running is not None:
            await self._running
        if self._acknowledging is not None:
            await self._acknowledging

    async def run_once(self) -> None:
        """Handles each delivery that has been unacknowledged for as long as the setting `lease_copy_after` says; while
        the process ends, every delivery. Publishes a lease copy for each lease that still lasts. Then acknowledges the
        handled deliveries.

        Raises:
            Unavailable: some deliveries are left for the next run.
        """
        old = self._old()
        # RabbitMQ redelivers the message of a closed channel, and the process that takes it publishes the lease copy.
        self._acknowledge([lease for lease in old if not lease.delivery.is_open])
        left = {at: lease for at, lease in enumerate(old) if lease.delivery.is_open}
        ended = await superseded(self._store, self._records, {at: lease.copy for at, lease in left.items()})
        self._acknowledge([left.pop(at) for at in ended])
        now_ms, now_s, leases = self._store.clock.now_ms(), monotonic(), [*left.values()]
        steps = [late_step(self._records, lease.copy, (lease.until_s - now_s) * 1_000, now_ms) for lease in leases]
        results = await self._succession.perform(steps)
        # If Redis did not answer, the lease copy is published anyway, and the record names it already.
        published = [not isinstance(result, BrokerUnavailable) for result in results]
        self._acknowledge(lease for lease, done in zip(leases, published, strict=True) if done)
        for result in results:
            if isinstance(result, BrokerUnavailable):
                raise result

    async def _run(self) -> None:
        """Repeats `run_once` while any delivery is unacknowledged."""
        while self._leases:
            oldest = next(iter(self._leases.values()))
            await self._pause(oldest.since_s + self._after_ms / 1_000 - monotonic())
            if pause_s := await self.status.attempt(self._published):
                await asyncio.sleep(pause_s)

    async def _published(self) -> float:
        try:
            await self.run_once()
        except Unavailable:
            raise
        except Exception as error:  # noqa: BLE001 - the status logs it
            # A bug with one message must not hold up other messages. The process that gets it next publishes its lease
            # copy.
            self.status.failed(error)
            self._requeue([lease for lease in self._old() if self._forget(lease)])
        return 0.0

    def _old(self) -> list[_Lease]:
        before_s = monotonic() - (0.0 if self._ending.is_set() else self._after_ms / 1_000)
        return [lease for lease in self._leases.values() if lease.since_s <= before_s]

    async def _pause(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, seconds)):
                await self._ending.wait()

    def _acknowledge(self, leases: Iterable[_Lease]) -> None:
        """Forgets the leases. Acknowledges their deliveries within 5 ms, together with deliveries that are added in
        that time."""
        self._settled += [lease for lease in leases if self._forget(lease)]
        if self._settled and (self._acknowledging is None or self._acknowledging.done()):
            self._acknowledging = log_scope.shared_task(self._acknowledge_settled())

    async def _acknowledge_settled(self) -> None:
        while self._settled:
            await asyncio.sleep(_TOGETHER_S)
            settled, self._settled = self._settled, []
            try:
                ack_all(lease.delivery for lease in settled)
            except Exception as error:  # noqa: BLE001 - the status logs it; RabbitMQ redelivers them with the channel
                self.status.failed(error)
            self._of_queue -= Counter(lease.delivery.queue for lease in settled)

    def _requeue(self, leases: Sequence[_Lease]) -> None:
        for lease in leases:
            lease.delivery.requeue()
        self._of_queue -= Counter(lease.delivery.queue for lease in leases)

    def _forget(self, lease: _Lease) -> bool:
        """Forgets a lease. Returns whether it was known until now."""
        name = _name(lease.copy)
        if self._leases.get(name) is not lease:
            return False
        del self._leases[name]
        return True


def _name(message: Copy | Record) -> _Name:
    return message.topic, message.id, message.created_ms
