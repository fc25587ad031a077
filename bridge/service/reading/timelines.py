"""Reads the timeline of a message: its last transitions."""

from __future__ import annotations

from typing import Final

from bridge.broker.publications import parked_ms
from bridge.model.errors import NotFound
from bridge.model.timeline import Timeline, Transition, What
from bridge.model.values import Policy, Release
from bridge.service.context import Context
from bridge.store.messages.timelines import StoredTransition, transitions

_PARKING: Final = frozenset(
    (What.SENT, What.REPLACED, What.MOVED, What.CHANGED, What.LEASED, What.NACKED, What.RETRIED, What.RESTORED)
)
_RELEASING: Final = frozenset((What.RELEASED, What.RETURNED))


class Timelines:
    """Reads the timelines of one pool's messages."""

    def __init__(self, context: Context) -> None:
        self._store = context.store
        self._records = context.records
        self._topics = context.topics
        self._declared = context.broker.declared

    async def get(self, topic: str, message_id: str) -> Timeline:
        """Returns the timeline of one message. It is empty if all changes came while the bridge kept no timelines.

        Raises:
            NotFound: Redis has no record of this id in the topic, or has it no longer.
            StoreUnavailable: Redis did not answer.
        """
        (outcome,) = await self._store.run([self._records.timeline(topic, message_id)])
        if outcome.record is None:
            raise NotFound(f"there is no message {message_id!r} in the topic {topic!r}")
        policy = await self._topics.policy(topic)
        items = [
            Transition(
                at_ms=stored.at_ms,
                what=stored.what,
                attempt=stored.attempts,
                slot=self._declared.first_slot(message_id, stays_ms(stored, policy)),
                late_ms=stored.number if stored.what in _RELEASING else None,
                token_id=stored.by or None,
                reason=stored.reason or None,
            )
            for stored in transitions(outcome)
        ]
        return Timeline(topic, message_id, items)


def stays_ms(stored: StoredTransition, policy: Policy) -> int:
    """Returns how many ms the wheel keeps the copy that this transition published. 0: the transition published none, or
    the copy passes the wheel at once. `policy`: the policy of the message's topic. Pure."""
    if stored.what not in _PARKING or stored.number <= 0:
        return 0
    rounded_up = stored.what is What.LEASED or (stored.what is What.SENT and policy.release is Release.DIRECT)
    return parked_ms(stored.number, exact=not rounded_up)
