"""Delivers messages to the consumers of one channel, and takes acknowledgements."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import takewhile
from typing import Protocol

from pamqp.base import Frame
from pamqp.commands import Basic

from tests.simulate.rabbitmq.clock import Timer
from tests.simulate.rabbitmq.errors import Refusal, failed
from tests.simulate.rabbitmq.message import Entry, Message
from tests.simulate.rabbitmq.queues import Queue
from tests.simulate.rabbitmq.state import State
from tests.simulate.rabbitmq.tables import Properties


class Wire(Protocol):
    """What a channel offers to its deliveries."""

    number: int

    def send(self, method: Frame) -> None: ...

    def send_content(self, method: Frame, properties: Properties, body: bytes) -> None: ...

    def fail(self, refusal: Refusal) -> None: ...


@dataclass(slots=True, eq=False)
class Unacked:
    """A delivery that its client has not acknowledged. `since_ms`: when it was delivered."""

    queue: Queue
    entry: Entry
    consumer: Consumer | None
    since_ms: float


class Consumer:
    """A consumer of one queue. `prefetch`: the most unacknowledged deliveries, 0 for any number."""

    def __init__(self, deliveries: Deliveries, queue: Queue, tag: str, *, no_ack: bool, prefetch: int) -> None:
        self.queue = queue
        self.tag = tag
        self.no_ack = no_ack
        self.prefetch = prefetch
        self.unacked = 0
        self._deliveries = deliveries

    @property
    def has_room(self) -> bool:
        return self.no_ack or (
            (not self.prefetch or self.unacked < self.prefetch) and self._deliveries.has_room_for_all
        )

    def deliver(self, entry: Entry) -> None:
        self._deliveries.deliver(self, entry)

    def queue_gone(self) -> None:
        self._deliveries.consumer_gone(self)


class Deliveries:
    """The consumers of a channel and its unacknowledged deliveries, in the order of their tags.

    `prefetch`: of the next consumer. `most`: of all consumers together (global QoS). 0: any number.
    """

    def __init__(self, wire: Wire, state: State, *, tells_of_cancels: bool) -> None:
        self.consumers: dict[str, Consumer] = {}
        self.prefetch = self.most = 0
        self._wire = wire
        self._state = state
        self._tells_of_cancels = tells_of_cancels
        self._tag = 0
        self._unacked: dict[int, Unacked] = {}
        self._timeout: Timer | None = None

    @property
    def has_room_for_all(self) -> bool:
        """Whether global QoS allows another delivery."""
        return not self.most or len(self._unacked) < self.most

    def of(self, queue: Queue) -> list[Message]:
        """Returns the unacknowledged messages of a queue."""
        return [unacked.entry.message for unacked in self._unacked.values() if unacked.queue is queue]

    # Taking

    def deliver(self, consumer: Consumer, entry: Entry) -> None:
        tag = self._hold(consumer.queue, entry, consumer, no_ack=consumer.no_ack)
        self._wire.send_content(
            Basic.Deliver(
                consumer_tag=consumer.tag,
                delivery_tag=tag,
                redelivered=consumer.queue.redelivered(entry),
                exchange=entry.message.exchange,
                routing_key=entry.message.keys[0],
            ),
            consumer.queue.properties(entry, by_get=False),
            entry.message.body,
        )

    def get(self, queue: Queue, *, no_ack: bool) -> None:
        """Answers `basic.get`."""
        entry = queue.take()
        if entry is None:
            self._wire.send(Basic.GetEmpty())
            return
        tag = self._hold(queue, entry, None, no_ack=no_ack)
        message: Message = entry.message
        answer = Basic.GetOk(
            delivery_tag=tag,
            redelivered=queue.redelivered(entry),
            exchange=message.exchange,
            routing_key=message.keys[0],
            message_count=queue.depth,
        )
        self._wire.send_content(answer, queue.properties(entry, by_get=True), message.body)

    def _hold(self, queue: Queue, entry: Entry, consumer: Consumer | None, *, no_ack: bool) -> int:
        self._tag += 1
        if not no_ack:
            self._unacked[self._tag] = Unacked(queue, entry, consumer, self._state.clock.now_ms)
            if consumer is not None:
                consumer.unacked += 1
            self._watch()
        return self._tag

    def begin(self, consumer: Consumer) -> None:
        """Lets a consumer begin, after RabbitMQ has agreed to it."""
        self.consumers[consumer.tag] = consumer
        consumer.queue.add_taker(consumer)

    def cancel(self, tag: str) -> None:
        """Ends a consumer. Its unacknowledged deliveries stay."""
        consumer = self.consumers.pop(tag, None)
        if consumer is not None:
            consumer.queue.remove_taker(consumer)

    def consumer_gone(self, consumer: Consumer) -> None:
        """Tells the client that the broker has ended a consumer."""
        if self.consumers.pop(consumer.tag, None) is not None and self._tells_of_cancels:
            self._wire.send(Basic.Cancel(consumer_tag=consumer.tag, nowait=True))

    # Settling

    def ack(self, tag: int, *, multiple: bool) -> None:
        """Raises Refusal: no delivery with this tag is unacknowledged."""
        for queue, _ in self._settle(tag, multiple=multiple):
            queue.settled()
        self._let_others_go_on()

    def reject(self, tag: int, *, multiple: bool, requeue: bool, failed: bool) -> None:
        """Rejects deliveries. `failed`: this counts towards the delivery limit. Raises as `ack` does."""
        for queue, entries in self._settle(tag, multiple=multiple):
            if requeue:
                queue.give_back(entries, failed=failed)
            else:
                queue.reject(entries, failed=failed)
        self._let_others_go_on()

    def end(self) -> None:
        """Ends the consumers, and requeues all that is unacknowledged."""
        if self._timeout is not None:
            self._timeout.cancel()
        for tag in [*self.consumers]:
            self.cancel(tag)
        for queue, entries in self._settle(0, multiple=True):
            queue.give_back(entries, failed=True)

    def _settle(self, tag: int, *, multiple: bool) -> list[tuple[Queue, list[Entry]]]:
        """Removes deliveries, and returns their entries by queue."""
        if not (tag in self._unacked or (multiple and tag == 0)):
            raise failed(f"unknown delivery tag {tag}")
        tags = [*takewhile(lambda other: not tag or other <= tag, self._unacked)] if multiple else [tag]
        entries: dict[Queue, list[Entry]] = {}
        for settled in tags:
            unacked = self._unacked.pop(settled)
            if unacked.consumer is not None:
                unacked.consumer.unacked -= 1
            entries.setdefault(unacked.queue, []).append(unacked.entry)
        return [*entries.items()]

    def _let_others_go_on(self) -> None:
        if self.most:
            for queue in {consumer.queue: None for consumer in self.consumers.values()}:
                queue.settled()

    # The time limit

    def _watch(self) -> None:
        """Closes the channel when its oldest delivery has been unacknowledged for too long."""
        if self._unacked and (self._timeout is None or self._timeout.cancelled):
            oldest_ms = next(iter(self._unacked.values())).since_ms
            moment_ms = oldest_ms + self._state.consumer_timeout_ms
            self._timeout = self._state.clock.at(moment_ms, self._check)

    def _check(self) -> None:
        self._timeout = None
        if self._unacked:
            self.time_out(self._state.consumer_timeout_ms)
            self._watch()

    def time_out(self, limit_ms: float) -> None:
        """Closes the channel if its oldest delivery has been unacknowledged for so long."""
        oldest = next(iter(self._unacked.values()), None)
        if oldest is None or self._state.clock.now_ms < oldest.since_ms + limit_ms:
            return
        self._wire.fail(
            failed(
                f"delivery acknowledgement on channel {self._wire.number} timed out. Timeout value used: "
                f"{limit_ms:.0f} ms. This timeout value can be configured, see consumers doc guide to learn more"
            )
        )
