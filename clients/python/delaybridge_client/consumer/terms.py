"""Defines the terms on which a consumer takes messages."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from delaybridge_client.errors import InvalidArgument
from delaybridge_client.operation import Operation
from delaybridge_client.operations import pull, pull_by_priority
from delaybridge_client.retries import Retries
from delaybridge_client.values.message import LeasedMessage, Pulled

MOST_PULLED: Final = 100  # by one call
ONCE: Final = Retries(attempts=1)  # for calls in a loop, which itself tries again
STOPPED: Final = "the consumer stopped before it was done"
_LONGEST_REASON: Final = 500  # characters
_LEAST_LEASE: Final = timedelta(seconds=1)
_MOST_LEASE: Final = timedelta(hours=12)
_MOST_POLL: Final = timedelta(seconds=60)
_POLL_WITH_ACKS: Final = timedelta(milliseconds=500)


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """The terms on which a consumer takes messages.

    `topics`: the most urgent first. `concurrency`: the most messages held at once. `lease`: how soon a message is
    delivered again if this process dies; the consumer extends the lease of a message that takes longer. `longest`:
    after this time the consumer no longer extends a lease, so that a handler that hangs does not hold its message for
    ever. `poll`: how long one pull waits for a message. `drain`: how long handlers may go on after a stop.
    """

    topics: tuple[str, ...]
    concurrency: int = 10
    lease: timedelta = timedelta(seconds=30)
    longest: timedelta = timedelta(hours=1)
    poll: timedelta = timedelta(seconds=20)
    drain: timedelta = timedelta(seconds=30)

    def __post_init__(self) -> None:
        if not self.topics:
            raise InvalidArgument("topics: give at least one topic")
        if self.concurrency < 1:
            raise InvalidArgument(f"concurrency: must be at least 1, not {self.concurrency}")
        if not _LEAST_LEASE <= self.lease <= _MOST_LEASE:
            raise InvalidArgument(f"lease: must be from {_LEAST_LEASE} to {_MOST_LEASE}, not {self.lease}")
        if not timedelta() <= self.poll <= _MOST_POLL:
            raise InvalidArgument(f"poll: must be from 0 to {_MOST_POLL}, not {self.poll}")

    def pull(self, most: int, ack: Sequence[LeasedMessage] = ()) -> Operation[Pulled]:
        """Returns the operation that pulls up to `most` messages, and acks messages. A pull with acks waits for half a
        second at most, so that their results come soon."""
        most, wait = min(most, MOST_PULLED), min(self.poll, _POLL_WITH_ACKS) if ack else self.poll
        if len(self.topics) == 1:
            return pull(self.topics[0], max=most, wait=wait, lease=self.lease, ack=ack)
        return pull_by_priority(self.topics, max=most, wait=wait, lease=self.lease, ack=ack)

    def until_extension_s(self) -> float:
        """Returns the seconds from the begin of a lease to its extension: about half of the lease. They are random, so
        that leases that began together are not extended together."""
        return self.lease.total_seconds() * random.uniform(0.4, 0.6)


def reason_of(error: BaseException) -> str:
    """Returns the reason of a nack because of the error. The message's timeline and a dead letter show this text."""
    text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return " ".join(text.split())[:_LONGEST_REASON]
