"""Reports the counts of a consumer, and the errors that no caller could catch."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from delaybridge_client.errors import DelaybridgeError
from delaybridge_client.values.message import LeasedMessage

log: Final = logging.getLogger("delaybridge_client.consumer")


@dataclass(slots=True)
class Counts:
    """The counts of a consumer since its start. `late`: messages whose lease had ended before they were settled. They
    are delivered again, so their handlers may run twice."""

    pulled: int = 0
    acked: int = 0
    nacked: int = 0
    late: int = 0


@dataclass(frozen=True, slots=True)
class Late:
    """A message whose lease ended before it was settled. `why`: such as `stale`, or an error's text."""

    message: LeasedMessage
    why: str


class Reports:
    """Counts and logs what a consumer does, and calls `on_late`."""

    def __init__(self, on_late: Callable[[Late], None] | None) -> None:
        self.counts = Counts()
        self._on_late = on_late
        self._failing = False

    def late(self, message: LeasedMessage, why: str) -> None:
        """Reports that a lease had ended before its message was settled."""
        self.counts.late += 1
        log.warning("late: %s/%s (attempt %d): %s", message.topic, message.id, message.attempts, why)
        if self._on_late is not None:
            self._on_late(Late(message, why))

    def failed(self, message: LeasedMessage, error: BaseException) -> None:
        """Reports that a handler raised an error."""
        log.error(
            "the handler failed on %s/%s (attempt %d)", message.topic, message.id, message.attempts, exc_info=error
        )

    def pull_failed(self, error: DelaybridgeError) -> None:
        """Reports that a pull failed and is tried again. Only the first of several failures in a row is a warning."""
        log.log(logging.DEBUG if self._failing else logging.WARNING, "pull failed, trying again: %s", error)
        self._failing = True

    def pulled(self, count: int) -> None:
        """Reports that a pull succeeded, with `count` messages."""
        self.counts.pulled += count
        if self._failing:
            log.warning("pulls succeed again")
        self._failing = False
