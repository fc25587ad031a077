"""Reads dead letters that RabbitMQ holds, and builds the steps that replay and drop them."""

from __future__ import annotations

from typing import Final

from bridge.broker.copies.copies import from_properties
from bridge.broker.ready.taken import Taken
from bridge.model.message import Copy, CopyKind, taken_id
from bridge.model.values import Effective
from bridge.service.context import Context
from bridge.service.dead.taken_ids import DeadLetterVerdict
from bridge.service.protocol.steps import Succeed, Update
from bridge.service.protocol.successors import completed, later, replay_copy

LETTER_LOST: Final = "its copy is no longer in the dead-letter queue, and its body was not kept"


Key = tuple[str, int, int]
"""Id, epoch and nonce, which tell the copies in a dead-letter queue apart. A crash may leave two copies of a message in
the queue; the message's record names one of them."""


def key(message_id: str, epoch: int, nonce: int) -> Key:
    """Returns the key of a copy, or of the copy that a record names. The key has the original id (`taken_id`), because
    a record's id changes when a new message takes the id."""
    return taken_id(message_id), epoch, nonce


class Letters:
    def __init__(self, context: Context) -> None:
        self._clock = context.store.clock
        self._records = context.records

    def of(self, topic: str, taken: Taken, policy: Effective) -> Copy:
        """Returns the copy that the delivery of a dead letter holds. If an AMQP client left out the number of retries
        or the time to live, `policy` gives it."""
        return completed(self.copy(topic, taken), policy)

    def copy(self, topic: str, taken: Taken) -> Copy:
        """Returns the copy that the delivery of a dead letter holds, unchanged: an AMQP client may have left out the
        number of retries (`UNSET`) and the time to live (0)."""
        now_ms = int(self._clock.now_ms())
        return from_properties(topic, taken.properties, taken.message.body, now_ms=now_ms)

    def drop(self, letter: Copy) -> Update[DeadLetterVerdict]:
        """Returns the step that ends a dead letter as deleted."""
        return Update(self._records.drop(letter.topic, letter.id, epoch=letter.epoch, nonce=letter.nonce))

    def replay(
        self, letter: Copy, *, max_retry: int | None = None, ttl_ms: int | None = None
    ) -> Succeed[DeadLetterVerdict]:
        """Returns the step that publishes a dead letter as a message that was never delivered and is due now.
        `max_retry`: the new retry limit; None: the dead letter's limit stays. `ttl_ms`: the new time to live in ms,
        from now on; None: no time to live."""
        now_ms = int(self._clock.now_ms())
        copy = replay_copy(letter, now_ms, max_retry=max_retry, ttl_ms=ttl_ms)
        name = self._records.replay(
            letter, next_nonce=copy.nonce, max_retry=copy.max_retry, due_ms=copy.due_ms, expires_ms=copy.expires_ms
        )
        return Succeed(later(copy, now_ms, CopyKind.RETRY), name)
