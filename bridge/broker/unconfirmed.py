"""Remembers the bridge's queues that do not confirm, so that the health names them.

A queue without a leader takes no message. No part of the bridge fails because of it. Only calls that need this queue,
by their topic or their delay, are refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from time import monotonic
from typing import Final

import structlog

from bridge.broker.client.publisher import Outgoing
from bridge.broker.declared.findings import Finding
from bridge.model.errors import BrokerUnavailable
from bridge.model.fast_dataclass import fast_dataclass
from topology.names import Names
from topology.wheel import HANDS, parse_key, slots

_MOST: Final = 100  # queues: a log line and a place in memory for each
_FOR_S: Final = 60.0
_MOST_NAMED: Final = 3

log = structlog.get_logger(__name__)


@fast_dataclass(frozen=True, slots=True)
class _Failure:
    reason: str
    at_s: float  # of `monotonic()`


class Unconfirmed:
    """The queues that refused the latest message to them, or did not confirm it in time, although RabbitMQ worked. A
    queue is forgotten as soon as it confirms. It is also forgotten after a minute, because perhaps nobody publishes to
    it again."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self._lanes = {exchange: lane for lane in names.each_lane for exchange in _entries(lane)}
        self._failures: dict[str, _Failure] = {}  # by queue, the latest last

    def note(self, messages: Sequence[Outgoing], errors: Sequence[BrokerUnavailable | None]) -> None:
        """Takes the answers to a burst. `errors`: for each message None if it is confirmed, or its error."""
        if not self._failures and errors.count(None) == len(errors):
            return
        self._expire()
        for message, error in zip(messages, errors, strict=True):
            if (queue := self.queue_of(message)) is None:
                continue
            if error is None:
                self._confirms(queue)
            elif type(error) is BrokerUnavailable:
                self._fails(queue, str(error))

    def silent(self, messages: Sequence[Outgoing]) -> list[int]:
        """Returns the indexes of the messages to queues that refused the latest message to them, or did not confirm it
        in time."""
        if not self._failures:
            return []
        return [at for at, message in enumerate(messages) if self.queue_of(message) in self._failures]

    def forget_all(self) -> None:
        """Forgets the failures of all queues, because RabbitMQ as a whole takes no messages."""
        self._failures.clear()

    def findings(self) -> list[Finding]:
        """Returns one finding that names the queues which did not confirm a message in the last minute; none if there
        are none."""
        self._expire()
        if not self._failures:
            return []
        named, others = ", ".join([*self._failures][:_MOST_NAMED]), len(self._failures) - _MOST_NAMED
        # Further queues are not counted once `_MOST` have failed.
        at_least = "at least " if len(self._failures) == _MOST else ""
        more = f" and {at_least}{others} others" if others > 0 else ""
        reason = [*self._failures.values()][-1].reason
        return [
            Finding(
                "warning",
                f"queues did not confirm a message in the last minute: {named}{more} ({reason})",
                "If it stays, see whether a node leads them: docs/operating/runbook.md, A queue hangs",
            )
        ]

    def queue_of(self, message: Outgoing) -> str | None:
        """Returns the bridge's queue that a message goes to, as RabbitMQ names it. None: it goes to an exchange of
        another application."""
        if not message.exchange:
            return message.routing_key
        if message.exchange == self._names.ready_exchange:
            return self._names.ready_queue(message.routing_key)
        lane = self._lanes.get(message.exchange)
        key = None if lane is None else parse_key(message.routing_key)
        if lane is None or key is None:
            return None
        return lane.slot(*slots(key.delay_ms)[0]) if key.delay_ms else lane.checkpoint

    def _expire(self) -> None:
        since_s = monotonic() - _FOR_S
        while self._failures and (oldest := next(iter(self._failures.items())))[1].at_s < since_s:
            del self._failures[oldest[0]]

    def _confirms(self, queue: str) -> None:
        if self._failures.pop(queue, None) is not None:
            log.info("broker.queue_confirms", queue=queue)

    def _fails(self, queue: str, reason: str) -> None:
        before = self._failures.pop(queue, None)
        if len(self._failures) >= _MOST:
            return
        if before is None:
            log.warning("broker.queue_unconfirmed", queue=queue, reason=reason)
        self._failures[queue] = _Failure(reason, monotonic())


def _entries(lane: Names) -> list[str]:
    """Returns the exchanges of a lane's wheel to which the bridge publishes."""
    return [lane.due, *(lane.hand(hand.name) for hand in HANDS)]
