"""Decides what a nack of a leased message does. Pure."""

from __future__ import annotations

from math import ceil

from bridge.model.message import CopyKind, Message, new_nonce
from bridge.model.values import Effective
from bridge.service.protocol.steps import Step, Succeed, Update
from bridge.service.protocol.successors import dead, later, successor
from bridge.store.messages.records import Records
from bridge.store.messages.verdicts import BuryVerdict, NackVerdict


def nack_step(
    records: Records,
    message: Message,
    policy: Effective,
    *,
    now_ms: float,
    delay_ms: int | None,
    reason: str,
    counted: bool = True,
) -> Step[NackVerdict | BuryVerdict]:
    """Returns the step of a nack.

    If the message has its body, the step publishes a retry or a dead letter. Without the body it changes only the
    record. `delay_ms` None: the topic's back-off. `counted` False: the delivery uses up no retry.
    """
    record, envelope = message.record, message.envelope
    if delay_ms is None:
        delay_ms = policy.retry_after_ms(record.id, max(1, record.attempts))
    due_ms = ceil(now_ms) + delay_ms
    if envelope is None or envelope.body is None:
        return Update(records.nack(record, next_nonce=None, due_ms=due_ms, reason=reason))
    nonce = new_nonce()
    dies = counted and record.attempts > record.max_retry
    copy = successor(
        record,
        envelope,
        nonce=nonce,
        attempt=record.attempts + counted,
        due_ms=record.due_ms if dies else due_ms,  # a dead letter shows people when the message was due
    )
    if dies:
        reason = reason or "retries used up"
        return Succeed(
            publication=dead(copy, reason),
            name=records.bury(record, next_nonce=nonce, attempts=record.attempts, reason=reason),
        )
    return Succeed(
        announce=records.announce(copy, arrives_ms=due_ms, now_ms=now_ms),
        publication=later(copy, now_ms, CopyKind.RETRY),
        name=records.nack(record, next_nonce=nonce, due_ms=due_ms, reason=reason),
    )
