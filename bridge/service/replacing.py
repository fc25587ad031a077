"""Replace: send a message in the place of the one that lives under its id, if there is one.

The successor is published before the record names it, as with every other change, so at every moment the one or the
other is live. A crash in between leaves the old one, and a copy of the new one that is believed only when nobody has
settled the old one a minute after it was due.
"""

from __future__ import annotations

from typing import Final

from bridge import metrics
from bridge.model.errors import InvalidRequest, SendUnderWay
from bridge.model.message import Copy, CopyKind, Message, Record, new_nonce
from bridge.model.values import MAX_DELAY_MS, Draft
from bridge.service.context import Context
from bridge.service.sending import Sending
from bridge.service.succession import Step, Succession
from bridge.service.successors import at_once, later
from bridge.store import envelopes
from bridge.store.verdicts import Verdict

_TRIES: Final = 10


class Replacing:
    def __init__(self, context: Context, sending: Sending) -> None:
        self._store = context.store
        self._records = context.records
        self._succession = Succession(context.store, context.broker.copy_publisher)
        self._topics = context.topics
        self._keep_body_max = context.settings.keep_body_max
        self._max_retry = context.settings.max_retry
        self._sending = sending

    async def put(self, draft: Draft) -> Message:
        """Sends the draft, which has an id and a delay. What was live under the id is no more, leased or not, and
        whoever was handed it settles the new message by the id.

        Raises:
            InvalidRequest: it would be due beyond the longest delay.
            Unavailable: unknown; the new message is live, or what was before is as it was. Put it again.
        """
        for _ in range(_TRIES):
            sent = await self._sending.send(draft)
            if not sent.replayed:
                return sent.message
            replaced = await self._replace(sent.message.record, draft)
            if replaced is not None:
                return replaced
        raise SendUnderWay(f"the message {draft.id!r} is being changed by others again and again")

    async def _replace(self, record: Record, draft: Draft) -> Message | None:
        """None: the record has moved on meanwhile."""
        delay_ms = draft.delay_ms or 0
        if delay_ms > MAX_DELAY_MS:
            raise InvalidRequest.of("delay", delay_ms, MAX_DELAY_MS, "is beyond the longest delay of 999 days")
        policy = await self._topics.used(record.topic)
        now_ms = int(self._store.clock.now_ms())
        ttl_ms = policy.ttl_ms if draft.ttl_ms is None else draft.ttl_ms
        max_retry = policy.max_retry if draft.max_retry is None else draft.max_retry
        copy = Copy(
            topic=record.topic,
            id=record.id,
            epoch=record.epoch + 1,
            nonce=new_nonce(),
            attempt=1,
            max_retry=self._max_retry if max_retry is None else max_retry,
            due_ms=now_ms + delay_ms,
            expires_ms=0 if ttl_ms is None else now_ms + delay_ms + ttl_ms,
            # Never that of the message before: it tells the two apart.
            created_ms=max(now_ms, record.created_ms + 1),
            envelope=draft.envelope,
        )
        ready = delay_ms <= 0 and not policy.paused
        packed = envelopes.pack(draft.envelope, self._keep_body_max)
        outcome = await self._succession.perform_one(
            Step(
                publication=at_once(copy, now_ms) if ready else later(copy, now_ms, CopyKind.MOVE),
                name=self._records.replace(record, copy, ready=ready, envelope=packed),
            )
        )
        if outcome.verdict is not Verdict.REPLACED:
            return None
        metrics.ACCEPTED.add(record.topic)
        return Message(record=outcome.found, envelope=draft.envelope)
