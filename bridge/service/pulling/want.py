"""Holds one pull's request for messages of one or several topics, and its answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from bridge.model.errors import Unavailable
from bridge.model.unread_bytes import MAKING
from bridge.model.values import Leased
from bridge.service.pulling.leasing import LeaseTerms


class Want:
    """A pull's request for up to `limit` messages. The first dispatcher that has messages for the want claims the want.

    `terms`: the terms of the leases. `waits`: the pull waits if no message is ready. `looked`: a dispatcher has found
    no message for the want. `share`: how many messages a feed adds to its window for the pull. `dealt`: how many
    messages the pull got; some of them may be ghosts. `answer`: the messages that were leased for the pull; a caller
    that gives up cancels this future. `making`: the answer that is made for the client that pulls; None: there is no
    client.
    """

    __slots__ = ("answer", "claimed", "dealt", "limit", "looked", "making", "share", "terms", "waits")

    def __init__(self, limit: int, terms: LeaseTerms, *, waits: bool = False, share: int | None = None) -> None:
        self.limit = limit
        self.terms = terms
        self.waits = waits
        self.looked = False
        self.share = limit if share is None else share
        self.claimed = False
        self.dealt = 0
        self.making = MAKING.get()
        self.answer: asyncio.Future[list[Leased]] = asyncio.get_running_loop().create_future()

    @property
    def is_open(self) -> bool:
        """Whether a dispatcher may still claim the want."""
        return not (self.claimed or self.answer.done())

    def claim(self, messages: int, size_bytes: int) -> None:
        """Claims the want, for which a dispatcher has this number of messages. `size_bytes`: the size of their bodies
        together."""
        self.claimed, self.dealt = True, messages
        if self.making is not None:
            self.making.hold(size_bytes)

    def refuse_at_limit(self) -> None:
        """Fails the want if clients have left too many bytes of answers unread (`UnreadBytes.is_full`)."""
        if self.making is not None and self.making.unread.is_full:
            self.fail(self.making.unread.refusal())

    def end(self, results: Sequence[Leased | Unavailable | None]) -> None:
        """Answers the want with the leases among these results, unless its caller has given up. If all results are
        errors, the want fails with the first one."""
        errors = [one for one in results if isinstance(one, Unavailable)]
        if errors and len(errors) == len(results):
            self.fail(errors[0])
        elif not self.answer.done():
            self.answer.set_result([one for one in results if isinstance(one, Leased)])

    def fail(self, error: Exception) -> None:
        if not self.answer.done():
            self.answer.set_exception(error)
            # Marks the error as retrieved. The caller may be gone, and asyncio logs errors that nobody retrieves.
            self.answer.exception()

    def on_done(self, changed: Callable[[], None]) -> None:
        """Calls `changed` once the want is answered or given up."""
        self.answer.add_done_callback(lambda _: changed())
