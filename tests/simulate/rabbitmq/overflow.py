"""Decides when a queue is full."""

from __future__ import annotations

from tests.simulate.rabbitmq.backlog import Backlog
from tests.simulate.rabbitmq.queue_arguments import Settings

_SOFT_LIMIT = 0.8  # a quorum queue that refuses publishes takes them again below this part of its limit


class Overflow:
    """The length limits of one queue. A quorum queue refuses publishes once it has more than its limit; a classic one
    refuses what would exceed it."""

    def __init__(self, settings: Settings, ready: Backlog) -> None:
        self._settings = settings
        self._ready = ready
        self._refuses = False

    def must_drop(self) -> bool:
        """Whether the queue drops its head."""
        return not self._settings.rejects and self._is_over()

    def must_refuse(self) -> bool:
        """Whether the queue refuses the next publish."""
        if not self._settings.rejects:
            return False
        if not self._settings.quorum:
            return self._is_over(more=1)
        if self._is_over():
            self._refuses = True
        elif not self._is_over(part=_SOFT_LIMIT):
            self._refuses = False
        return self._refuses

    def _is_over(self, *, more: int = 0, part: float = 1.0) -> bool:
        most, most_bytes = self._settings.most, self._settings.most_bytes
        return (most is not None and len(self._ready) + more > most * part) or (
            most_bytes is not None and self._ready.bytes + more > most_bytes * part
        )
