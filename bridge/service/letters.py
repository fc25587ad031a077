"""Reads dead letters as RabbitMQ holds them, and builds the steps that replay and drop them."""

from __future__ import annotations

from typing import Final

from bridge.broker.copies.copies import from_properties
from bridge.broker.ready.taken import Taken
from bridge.model.message import Copy, CopyKind, Record, aside_id
from bridge.model.values import Policy
from bridge.service.context import Context
from bridge.service.succession import Step
from bridge.service.successors import completed, later, replay_copy

LETTER_LOST: Final = "its copy is no longer in the dead-letter queue, and its body was not kept"


class Letters:
    def __init__(self, context: Context) -> None:
        self._clock = context.store.clock
        self._records = context.records
        self._max_retry = context.settings.max_retry

    def of(self, topic: str, taken: Taken, policy: Policy) -> Copy:
        """The letter, with what an AMQP client left out."""
        return completed(self.copy(topic, taken), policy, self._max_retry)

    def copy(self, topic: str, taken: Taken) -> Copy:
        """The letter as RabbitMQ holds it."""
        now_ms = int(self._clock.now_ms())
        return from_properties(topic, taken.properties, taken.message.body, now_ms=now_ms)

    def is_of(self, record: Record, taken: Taken) -> bool:
        """Whether this is the copy that the record names."""
        copy = self.copy(record.topic, taken)
        ids = (copy.id, aside_id(copy.id, copy.nonce))
        # A crash may leave a message in the queue twice, and the record names one of the two copies.
        return record.id in ids and (copy.epoch, copy.nonce) == (record.epoch, record.nonce)

    def drop(self, letter: Copy, delivery: Taken | None) -> Step:
        """Ends the letter as deleted."""
        drop = self._records.drop(letter.topic, letter.id, epoch=letter.epoch, nonce=letter.nonce)
        return Step(name=drop, delivery=delivery)

    def replay(
        self, letter: Copy, delivery: Taken | None, *, max_retry: int | None = None, ttl_ms: int | None = None
    ) -> Step:
        """Publishes the letter as a message that was never delivered and is due now."""
        now_ms = int(self._clock.now_ms())
        copy = replay_copy(letter, now_ms, max_retry=max_retry, ttl_ms=ttl_ms)
        name = self._records.replay(letter, next_nonce=copy.nonce, max_retry=copy.max_retry, expires_ms=copy.expires_ms)
        return Step(publication=later(copy, now_ms, CopyKind.RETRY), name=name, delivery=delivery)
