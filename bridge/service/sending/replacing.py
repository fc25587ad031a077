"""Sends a message that replaces the live message of the same id, if there is one.

`succession.py` publishes the successor before the record names it, so at every moment either the old or the new message
is live. A crash in between leaves the old message live, and a copy of the new message that no record names. Once that
copy is due, the checkpoint asks Redis about it at intervals, because the send may still be running. The checkpoint asks
for a minute, and at least until the old message is due. If no record names the copy even then, the new message replaces
the old one.

If the old message was deleted by then, the checkpoint drops the copy of the new message. If the old message has ended
otherwise, or has another copy, the new message gets a new id (`own_life_id`).
"""

from __future__ import annotations

import asyncio
from math import ceil
from typing import Final, assert_never

from bridge.metrics.messages import ACCEPTED
from bridge.model.errors import Releasing, SendUnderWay
from bridge.model.message import Copy, CopyKind, Message, Record, State, new_nonce
from bridge.model.values import Draft, IfExists, Sent
from bridge.service.changing import releasing
from bridge.service.context import Context
from bridge.service.protocol.kept_bodies import keep_body_max
from bridge.service.protocol.steps import Succeed
from bridge.service.protocol.succession import Succession
from bridge.service.protocol.successors import later
from bridge.service.sending.same_content import is_repeated
from bridge.service.sending.sending import Sending
from bridge.service.topics.maker import Maker
from bridge.store.messages import envelopes
from bridge.store.messages.records import AHEAD_MS
from bridge.store.messages.verdicts import ReplaceVerdict

_TRIES: Final = 10


class Replacing:
    def __init__(self, context: Context, sending: Sending) -> None:
        self._store = context.store
        self._records = context.records
        self._succession = Succession.of_calls(context)
        self._topics = context.topics
        self._settings = context.settings
        self._sending = sending

    async def put(self, draft: Draft, maker: Maker | None = None, *, waits: bool = False) -> Sent:
        """Sends the draft, which has an id, and ends the live message of that id, leased or not. Returns the new
        message. A consumer may still have the old message, and settle it by id alone. Once the new message is released,
        such a call settles the new message. A receipt, or an ack over AMQP with `x-delay-created`, settles only the
        message that it came with.

        `maker`: a client with a limited number of topics; None: no limit. `waits`: if the old message is just being
        released, this method waits until the old message is due, and then replaces it.

        A draft with `IfExists.REPLACE` may be a repeated send. If a message of the id has ended, has the draft's
        content, and no send of it was answered, this method returns that message.

        Raises:
            InvalidRequest: the message would be due beyond the longest delay, or its target may not be used.
            Conflict: the old message is being released, and `waits` is False.
            BridgeError: `maker` may make no more topics.
            Unavailable: either the new message is live, or the old message is unchanged. Put it again.
        """
        for _ in range(_TRIES):
            sent = await self._sending.send(draft, maker)
            if not sent.replayed or (draft.if_exists is IfExists.REPLACE and is_repeated(sent, draft)):
                return sent
            try:
                replaced = await self.replace(sent.message.record, draft)
            except Releasing as releasing:
                if not waits:
                    raise
                await asyncio.sleep((releasing.left_ms + 1) / 1_000)  # a timer may end a little early
                continue
            if replaced is not None:
                return Sent(message=replaced, replayed=False, changed=True)
        raise SendUnderWay(f"other calls keep changing the message {draft.id!r}: put it again")

    async def replace(self, record: Record, draft: Draft) -> Message | None:
        """Replaces the message that this record describes, and returns the new message. Returns None if the record has
        changed meanwhile.

        Raises:
            Releasing: the old message is due within milliseconds, and is being released.
            Unavailable: either the new message is live, or the old message is unchanged.
        """
        policy = await self._topics.used(record.topic)
        now_ms = ceil(self._store.clock.now_ms())
        early_ms = record.due_ms - now_ms
        if record.state is State.READY and 0 < early_ms <= AHEAD_MS:
            raise releasing(record, early_ms)
        due_ms = now_ms + (draft.delay_ms or 0) if draft.deliver_at_ms is None else max(draft.deliver_at_ms, now_ms)
        ttl_ms = policy.ttl_of(draft)
        copy = Copy(
            topic=record.topic,
            id=record.id,
            epoch=record.epoch + 1,
            nonce=new_nonce(),
            attempt=1,
            max_retry=policy.retries_of(draft),
            due_ms=due_ms,
            expires_ms=0 if ttl_ms is None else due_ms + ttl_ms,
            # Always later than the old message's: this moment tells the two messages apart.
            created_ms=max(now_ms, record.created_ms + 1),
            envelope=draft.envelope,
        )
        most = keep_body_max(self._settings, policy, of_wire=draft.of_wire)
        packed = envelopes.pack(draft.envelope, most, digested=True)
        outcome = await self._succession.perform_one(
            Succeed(
                announce=self._records.announce(copy, arrives_ms=copy.due_ms, now_ms=now_ms),
                publication=later(copy, now_ms, CopyKind.MOVE),
                name=self._records.replace(record, copy, draft, envelope=packed),
            )
        )
        match outcome.verdict:
            case ReplaceVerdict.REPLACED:
                ACCEPTED.add(record.topic)
                return Message(record=outcome.found, envelope=draft.envelope)
            case ReplaceVerdict.RELEASING:
                raise releasing(outcome.found, outcome.extra)
            case ReplaceVerdict.STALE | ReplaceVerdict.UNKNOWN:
                return None
            case _:
                assert_never(outcome.verdict)
