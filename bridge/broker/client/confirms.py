"""What the broker says of the publishes on one channel: confirmed, refused, returned. No future a message."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from bridge.model.errors import BrokerUnavailable, Unroutable


class Confirms:
    """Of a channel that has one burst under way at a time. A burst's messages are told by their places in it."""

    def __init__(self) -> None:
        self._last = 0  # the delivery tag of the latest publish; the channel counts from 1
        self._ids: Sequence[str] = ()
        self._errors: list[BrokerUnavailable | None] = []
        self._open: dict[int, None] = {}  # tags of which nothing is known yet, in their order
        self._told: asyncio.Future[None] | None = None
        self.any_refused = False  # of the burst

    def begin(self, ids: Sequence[str]) -> asyncio.Future[None]:
        """Of a burst that is about to be written. Its messages are returned by their ids, of which none is twice.
        Done when all of it is told."""
        first, self._last = self._last + 1, self._last + len(ids)
        self._ids = ids
        self.any_refused = False
        self._errors = [None] * len(ids)
        self._open = dict.fromkeys(range(first, self._last + 1))
        self._told = asyncio.get_running_loop().create_future()
        if not ids:
            self._told.set_result(None)
        return self._told

    def errors(self, otherwise: BrokerUnavailable | None = None) -> list[BrokerUnavailable | None]:
        """Why each message of the burst is not confirmed; `otherwise` for those of which nothing is known."""
        errors = self._errors.copy()
        for tag in self._open:
            place = tag - self._last - 1  # from the end
            errors[place] = errors[place] or otherwise
        return errors

    def confirmed(self, tag: int, *, multiple: bool) -> None:
        """All up to this one, or this one."""
        for done in self._up_to(tag) if multiple else (tag,):
            self._open.pop(done, None)
        if not self._open and self._told is not None and not self._told.done():
            self._told.set_result(None)

    def refused(self, tag: int, *, multiple: bool) -> None:
        """As `confirmed`, for what the broker did not take."""
        for done in self._up_to(tag) if multiple else (tag,):
            if done in self._open:
                self._errors[done - self._last - 1] = BrokerUnavailable("RabbitMQ did not take the message")
                self.any_refused = True
        self.confirmed(tag, multiple=multiple)

    def returned(self, message_id: str | None, reason: str) -> None:
        """No queue takes it. It is confirmed all the same, after that."""
        if message_id in self._ids:
            self._errors[self._ids.index(message_id)] = Unroutable(f"no queue takes it: {reason}")

    def _up_to(self, tag: int) -> list[int]:
        if tag >= self._last:
            return list(self._open)
        return [one for one in self._open if one <= tag]
