"""Sends a message that extends the waiting message of the same id: debounce.

The message gets the content of the last send. Its due moment never becomes earlier, nor later than the longest wait
allows. This wait counts from the first send. If the new content equals the old, only the record changes, unless the
live copy may be lost (`change_step`). Otherwise `succession.py` publishes a successor before the record names it, so a
crash in between leaves the message as it was.

A ready message stays as it is: it is delivered after this send anyway. A leased message was delivered before this send,
so a new message takes its place.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import Final, assert_never

from bridge.model.errors import SendUnderWay
from bridge.model.message import Message, State
from bridge.model.values import Change, Draft, Sent
from bridge.service.changing import change_step
from bridge.service.context import Context
from bridge.service.protocol.kept_bodies import keep_body_max
from bridge.service.protocol.succession import Succession
from bridge.service.sending.replacing import Replacing
from bridge.service.sending.same_content import is_repeated, is_same
from bridge.service.sending.sending import Sending
from bridge.service.topics.maker import Maker
from bridge.store.messages.verdicts import ChangeVerdict

_TRIES: Final = 10


class Extending:
    def __init__(self, context: Context, sending: Sending, replacing: Replacing) -> None:
        self._store = context.store
        self._records = context.records
        self._succession = Succession.of_calls(context)
        self._topics = context.topics
        self._settings = context.settings
        self._sending = sending
        self._replacing = replacing

    async def put(self, drafts: Sequence[Draft], maker: Maker | None = None) -> Sent:
        """Sends drafts of one id, which came in this order. If a message with the id waits, extends it by all drafts.
        Otherwise sends the last draft, unless a ready message has the id. Returns the message that has the id then.
        `maker`: a client with a limited number of topics; None: no limit.

        Raises:
            InvalidRequest: the message would be due beyond the longest delay, or its target may not be used.
            BridgeError: `maker` may make no more topics.
            Unavailable: the message is either extended or unchanged. Send again.
        """
        last = drafts[-1]
        for _ in range(_TRIES):
            sent = await self._sending.send(last, maker)
            state = sent.message.record.state
            if not sent.replayed or state is State.READY or is_repeated(sent, last):
                return sent
            changed: Message | None = None
            if state is State.WAITING:
                changed = await self._extend(sent.message, drafts)
            elif state is State.LEASED:
                changed = await self._replacing.replace(sent.message.record, last)
            if changed is not None:
                return Sent(message=changed, replayed=False, changed=True)
        raise SendUnderWay(f"other calls keep changing the message {last.id!r}: send it again")

    async def _extend(self, message: Message, drafts: Sequence[Draft]) -> Message | None:
        """Extends a waiting message, and returns it. Returns None if the record has changed meanwhile."""
        record, last = message.record, drafts[-1]
        policy = await self._topics.used(record.topic)
        now_ms = ceil(self._store.clock.now_ms())
        due_ms, instant = extended(record.created_ms, record.due_ms, drafts, now_ms)
        change = Change(
            envelope=None if is_same(message.envelope, last.envelope) else last.envelope,
            ttl_ms=last.ttl_ms,
            max_retry=None if last.max_retry is None else max(last.max_retry, record.attempts),
            labels=last.labels or None,
        )
        step = change_step(
            self._records,
            message,
            change,
            policy,
            now_ms=now_ms,
            due_ms=due_ms,
            instant=instant,
            keep_body_max=keep_body_max(self._settings, policy),
            only_later=True,
        )
        outcome = await self._succession.perform_one(step)
        match outcome.verdict:
            case ChangeVerdict.CHANGED:
                return Message(record=outcome.found, envelope=last.envelope)
            case ChangeVerdict.STALE | ChangeVerdict.UNKNOWN:
                return None
            case _:
                assert_never(outcome.verdict)


def extended(created_ms: int, due_ms: int, drafts: Sequence[Draft], now_ms: int) -> tuple[int, bool]:
    """Returns the due moment after these sends, in Unix ms, and whether a draft gave it as an instant. Pure.

    It is the latest of `due_ms` and the moments that the drafts ask for. A draft's longest wait limits the moment that
    it asks for, and counts from `created_ms`. `created_ms`, `due_ms`: the creation and the present due moment of the
    waiting message. `now_ms`: delays count from it. All are Unix ms.
    """
    asked = [
        min(
            (now_ms + (draft.delay_ms or 0), False) if draft.deliver_at_ms is None else (draft.deliver_at_ms, True),
            (created_ms + (draft.max_wait_ms or 0), False),
        )
        for draft in drafts
    ]
    return max((due_ms, False), *asked)
