"""Keeps messages in queues: delivers them, expires them, and lets them die."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Protocol

from tests.simulate.rabbitmq.backlog import Backlog
from tests.simulate.rabbitmq.clock import Timer
from tests.simulate.rabbitmq.dead_letters import Forwarder, dead_letter, without_cycles
from tests.simulate.rabbitmq.leader import Leader
from tests.simulate.rabbitmq.message import Entry, Message
from tests.simulate.rabbitmq.overflow import Overflow
from tests.simulate.rabbitmq.queue_arguments import Settings
from tests.simulate.rabbitmq.state import State
from tests.simulate.rabbitmq.tables import Properties, Table, whole

_LEAST_TTL_MS = 1  # in which a consumer gets a message that may not wait


class Taker(Protocol):
    """A consumer, as a queue sees it."""

    @property
    def has_room(self) -> bool:
        """Whether the consumer takes another message."""
        ...

    def deliver(self, entry: Entry) -> None: ...

    def queue_gone(self) -> None:
        """Learns that the broker has ended the consumer."""
        ...


class Queue:
    """A queue. `owner`: the connection to which it is exclusive. `refuses`: a fault: it refuses all publishes.
    `is_gone`: it was deleted."""

    def __init__(
        self,
        state: State,
        name: str,
        *,
        durable: bool,
        auto_delete: bool,
        owner: object | None,
        arguments: Table,
        settings: Settings,
    ) -> None:
        self.name = name
        self.durable = durable
        self.auto_delete = auto_delete
        self.owner = owner
        self.arguments = arguments
        self.settings = settings
        self.declared_ms = state.clock.now_ms
        self.refuses = False
        self.leader = Leader()
        self.exclusive_consumer = False
        self._state = state
        self._ready = Backlog(quorum=settings.quorum, levels=state.rules.levels, apart=state.rules.levels_expire_apart)
        self._overflow = Overflow(settings, self._ready)
        self._letters = Forwarder(state, self._died)
        self._takers: deque[Taker] = deque()
        self._order = 0
        self._is_serving = self.is_gone = False
        self._expiry: Timer | None = None
        self._unused: Timer | None = None
        self.used()

    @property
    def depth(self) -> int:
        """How many messages are ready."""
        return len(self._ready)

    def messages(self) -> list[Message]:
        """Returns the ready messages, and the dead letters that no other queue has confirmed."""
        return [*(entry.message for entry in self._ready), *self._letters.messages()]

    @property
    def letters(self) -> int:
        """How many dead letters wait to be confirmed by other queues."""
        return len(self._letters)

    @property
    def consumers(self) -> int:
        return len(self._takers)

    def elect_leader(self) -> None:
        """Ends the time without a leader."""
        self.leader.elect()
        self._serve()

    # Messages

    def enqueue(self, message: Message, answered: Callable[[bool], None]) -> None:
        """Adds a message. `answered`: called with whether the queue has taken it."""
        self.leader.do(lambda: self._enqueue(message, answered))

    def _enqueue(self, message: Message, answered: Callable[[bool], None]) -> None:
        if self.is_gone:
            return  # nobody answers for a queue that was deleted without a leader
        if self.refuses or self._overflow.must_refuse():
            answered(False)
            return
        self._order += 1
        ttls = [ttl for ttl in (self.settings.ttl_ms, message.expiration_ms) if ttl is not None]
        failed = message.failed if self.settings.quorum and self._state.rules.carries_count else 0
        entry = Entry(message=message, order=self._order, failed=failed)
        if ttls:
            entry.expires_ms = self._state.clock.now_ms + max(_LEAST_TTL_MS, min(ttls))
        self._ready.add(entry)
        answered(True)
        self._serve()
        while self._overflow.must_drop() and (head := self._ready.pop()) is not None:
            self._die(head, "maxlen")
        self._serve()

    def take(self) -> Entry | None:
        """Removes the next message, as `basic.get` does. None: the queue is empty."""
        self.used()
        self._expire()
        entry = self._ready.pop()
        self._serve()
        return entry

    def settled(self) -> None:
        """Learns that a consumer has acknowledged messages, so it may have room."""
        self.leader.do(self._serve)

    def give_back(self, entries: Iterable[Entry], *, failed: bool) -> None:
        """Takes messages back. `failed`: the deliveries count towards the limit."""
        entries = [*entries]
        self.leader.do(lambda: self._give_back(entries, failed=failed))

    def _give_back(self, entries: Iterable[Entry], *, failed: bool) -> None:
        limit = self.settings.delivery_limit
        for entry in entries:
            entry.acquired += 1
            entry.failed += failed
            if limit is not None and entry.failed > limit:
                self._die(entry, "delivery_limit")
            elif not self.is_gone:
                self._ready.give_back(entry)
        self._serve()

    def reject(self, entries: Iterable[Entry], *, failed: bool) -> None:
        """Takes messages that a consumer does not want back: they die. `failed`: as in `give_back`."""
        entries = [*entries]
        self.leader.do(lambda: self._reject(entries, failed=failed))

    def _reject(self, entries: Iterable[Entry], *, failed: bool) -> None:
        for entry in entries:
            entry.failed += failed
            self._die(entry, "rejected")
        self._serve()

    def purge(self) -> int:
        """Removes all ready messages. Returns how many there were."""
        purged = len(self._ready.clear())
        self._serve()
        return purged

    def forget_transient(self) -> None:
        """Drops the messages that a restart of the broker does not bring back."""
        if not self.settings.quorum:
            for entry in self._ready.clear():
                if entry.message.is_persistent:
                    entry.acquired += 1
                    self._ready.give_back(entry)

    def forget_all(self) -> None:
        """Drops all messages and dead letters."""
        self._ready.clear()
        self._letters.end()

    def redelivered(self, entry: Entry) -> bool:
        """Whether the message was delivered before, as the queue knows."""
        if not self.settings.quorum:
            return entry.acquired > 0
        counts_returns = self._state.rules.counts_returns
        return self._failed(entry) > 0 or (counts_returns and entry.acquired > 0)

    def properties(self, entry: Entry, *, by_get: bool) -> Properties:
        """Returns the properties with which the message is delivered."""
        properties, rules, failed = entry.message.properties, self._state.rules, self._failed(entry)
        if not self.settings.quorum:
            return properties
        counts: dict[str, bytes | None] = {}
        if failed or (by_get and rules.zero_on_get):
            counts["x-delivery-count"] = whole(failed)
        if rules.counts_returns and (entry.acquired or failed):
            counts["x-acquired-count"] = whole(entry.acquired or failed)
        return properties.with_headers(counts) if counts else properties

    def _failed(self, entry: Entry) -> int:
        return entry.failed or entry.message.failed

    # Consumers

    def add_taker(self, taker: Taker) -> None:
        self._takers.append(taker)
        self.used()
        self._serve()

    def remove_taker(self, taker: Taker) -> None:
        """Ends a consumer. Its unacknowledged deliveries stay with the channel."""
        if taker in self._takers:
            self._takers.remove(taker)
            self.exclusive_consumer = False
            self.used()
            if self.auto_delete and not self._takers:
                self._state.delete_queue(self)
            else:
                self._serve()

    def used(self) -> None:
        """Notes a use of the queue, for `x-expires`."""
        if self.settings.expires_ms is not None:
            if self._unused is not None:
                self._unused.cancel()
            self._unused = None
            if not self._takers:
                moment_ms = self._state.clock.now_ms + self.settings.expires_ms
                self._unused = self._state.clock.at(moment_ms, lambda: self._state.delete_queue(self))

    def end(self) -> None:
        """Drops all messages, and tells the consumers. For `State.delete_queue` alone."""
        self.is_gone = True
        self._ready.clear()
        self._letters.end()
        for timer in (self._expiry, self._unused):
            if timer is not None:
                timer.cancel()
        self.cancel_takers()
        self.elect_leader()

    def cancel_takers(self) -> None:
        """Ends all consumers, and tells them. Their unacknowledged deliveries stay with the channels."""
        takers, self._takers = self._takers, deque()
        self.exclusive_consumer = False
        for taker in takers:
            taker.queue_gone()
        if not self.is_gone:
            self.used()

    def _serve(self) -> None:
        """Expires and delivers what it can."""
        if self._is_serving or self.is_gone or not self.leader.is_there:
            return
        self._is_serving = True
        self._expire()
        while len(self._ready) and (taker := self._next_taker()) is not None:
            entry = self._ready.pop()
            if entry is None:
                break
            taker.deliver(entry)
            self._expire()
        self._is_serving = False
        self._wait_for_expiry()

    def _next_taker(self) -> Taker | None:
        """Returns the consumer whose turn it is; None: none has room."""
        if self.settings.single_active:
            return self._takers[0] if self._takers and self._takers[0].has_room else None
        for _ in range(len(self._takers)):
            taker = self._takers[0]
            self._takers.rotate(-1)
            if taker.has_room:
                return taker
        return None

    # Deaths

    def _expire(self) -> None:
        now_ms = self._state.clock.now_ms
        for entry in self._ready.expired(lambda head: head.expires_ms is not None and head.expires_ms <= now_ms):
            self._die(entry, "expired")

    def _wait_for_expiry(self) -> None:
        moment_ms = self._ready.next_expiry_ms()
        if self._expiry is not None:
            if self._expiry.moment_ms == moment_ms and not self._expiry.cancelled:
                return
            self._expiry.cancel()
            self._expiry = None
        if moment_ms is not None:
            self._expiry = self._state.clock.at(moment_ms, self._expiry_due)

    def _expiry_due(self) -> None:
        self._expiry = None
        self._serve()

    def _die(self, entry: Entry, reason: str) -> None:
        if self.is_gone or self.settings.dead_letter_exchange is None:
            return
        message, rules = entry.message, self._state.rules
        if self.settings.quorum and rules.carries_count:
            message = replace(message, failed=entry.failed)
        elif self.settings.quorum and rules.rejected_shows_one and reason == "rejected":
            message = replace(message, failed=1)
        if self.settings.at_least_once:
            self._letters.add(message, reason)
            return
        letter = self._died(message, reason)
        for queue in without_cycles(letter, self._state.route(letter), reason):
            queue.enqueue(letter, _ignore)

    def _died(self, message: Message, reason: str) -> Message:
        return dead_letter(
            message,
            queue=self.name,
            reason=reason,
            exchange=self.settings.dead_letter_exchange or "",
            key=self.settings.dead_letter_key,
            now_ms=self._state.clock.now_ms,
            rules=self._state.rules,
        )


def _ignore(accepted: bool) -> None:
    """Takes the answer to a dead letter that is handed on at most once."""
