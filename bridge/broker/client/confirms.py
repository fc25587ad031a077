"""Collects the publisher confirms, refusals and returns of one channel, without a future for each message."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from bridge.model.errors import BrokerUnavailable, Unroutable


class Confirms:
    """Collects the confirms of a channel that has one burst of messages in flight at a time. A message is known by its
    index in the burst."""

    def __init__(self) -> None:
        self._last = 0  # delivery tag of the latest publish; the channel counts from 1
        self._ids: Sequence[str] = ()
        self._errors: list[BrokerUnavailable | None] = []
        self._open: dict[int, None] = {}  # tags without an answer yet, in order
        self._all_answered: asyncio.Future[None] | None = None
        self.any_refused = False  # in the burst

    def begin(self, ids: Sequence[str]) -> asyncio.Future[None]:
        """Begins a burst that is about to be written. `ids`: the ids of its messages, in the order of the burst. All
        ids must differ, because RabbitMQ names only the id of a message that it returns.

        Returns a future that is done when RabbitMQ has answered for every message.
        """
        first, self._last = self._last + 1, self._last + len(ids)
        self._ids = ids
        self.any_refused = False
        self._errors = [None] * len(ids)
        self._open = dict.fromkeys(range(first, self._last + 1))
        self._all_answered = asyncio.get_running_loop().create_future()
        if not ids:
            self._all_answered.set_result(None)
        return self._all_answered

    @property
    def any_confirmed(self) -> bool:
        """Whether a queue has confirmed a message of the burst."""
        return self._errors.count(None) > len(self._open)

    def errors(self, unanswered: BrokerUnavailable | None = None) -> list[BrokerUnavailable | None]:
        """Returns one item for each message of the burst: None if the message is confirmed, else the error.
        `unanswered`: the error of messages that RabbitMQ has not answered yet."""
        errors = self._errors.copy()
        for tag in self._open:
            index = tag - self._last - 1  # from the end
            errors[index] = errors[index] or unanswered
        return errors

    def confirmed(self, tag: int, *, multiple: bool) -> None:
        """Takes an ack of the broker for one tag; `multiple`: for all tags up to it."""
        for answered in self._up_to(tag) if multiple else (tag,):
            self._open.pop(answered, None)
        if not self._open and self._all_answered is not None and not self._all_answered.done():
            self._all_answered.set_result(None)

    def refused(self, tag: int, *, multiple: bool) -> None:
        """Takes a nack of the broker for one tag; `multiple`: for all tags up to it."""
        for answered in self._up_to(tag) if multiple else (tag,):
            if answered in self._open:
                self._errors[answered - self._last - 1] = BrokerUnavailable("RabbitMQ refused the message with a nack")
                self.any_refused = True
        self.confirmed(tag, multiple=multiple)

    def returned(self, message_id: str | None, reason: str) -> None:
        """Takes the broker's return of an unroutable message. RabbitMQ also confirms such a message, after it has
        returned it."""
        if message_id in self._ids:
            error = Unroutable(f"RabbitMQ returned the message, no queue takes it: {reason}")
            self._errors[self._ids.index(message_id)] = error

    def _up_to(self, tag: int) -> list[int]:
        if tag >= self._last:
            return list(self._open)
        return [earlier for earlier in self._open if earlier <= tag]
