"""A breaker: a server that did not answer in time is asked by one call at a time, and the others are refused at once.

It spares waiting and nothing else. So only a time limit that passed opens it: a refused connection or an error has cost
nobody any time, and counting it would only have callers refused when the server is back. One is enough where the server
answered nobody since that call began; where it did answer, the call was slow and the server is not away.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import IntEnum
from math import inf
from time import monotonic

from bridge.model.errors import Unavailable

_OPEN_S = 1.0
_LONGEST_S = 2.0  # a server that is back is used again after so long at most


class State(IntEnum):
    CLOSED = 0
    HALF_OPEN = 1
    OPEN = 2


class Breaker:
    """Moments are seconds of any clock that never goes back. `began_s` names a call: the moment it was admitted at."""

    def __init__(self, *, open_s: float = _OPEN_S, longest_s: float = _LONGEST_S) -> None:
        """Stays open for `open_s`, and after each try in vain for twice as long, `longest_s` at most."""
        self.state = State.CLOSED
        self._first_s = self._open_for_s = open_s
        self._longest_s = longest_s
        self._refusing_until_s = -inf
        self._tried_s = -inf
        self._heard_s = -inf

    def admit(self, now_s: float) -> bool:
        """Whether a call may be made. One that may has to be followed by one of the four ends below."""
        if self.state is State.CLOSED:
            return True
        if now_s < self._refusing_until_s:
            return False
        self.state = State.HALF_OPEN
        self._tried_s = now_s
        # A try that has not ended by then is not waited for.
        self._refusing_until_s = now_s + self._longest_s
        return True

    def answered(self, now_s: float) -> None:
        self.state = State.CLOSED
        self._heard_s = now_s
        self._open_for_s = self._first_s

    def failed(self, began_s: float, now_s: float) -> None:
        """The call failed without waiting: so will others, if they do."""
        if self._is_try(began_s):
            self.answered(now_s)

    def timed_out(self, began_s: float, now_s: float) -> None:
        if self._is_try(began_s) or (self.state is State.CLOSED and began_s > self._heard_s):
            self.state = State.OPEN
            self._refusing_until_s = now_s + self._open_for_s
            self._open_for_s = min(2 * self._open_for_s, self._longest_s)

    def given_up(self, began_s: float, now_s: float) -> None:
        """The call ended in a way that says nothing of the server: if it was the try, the next call is."""
        if self._is_try(began_s):
            self.state = State.OPEN
            self._refusing_until_s = now_s

    def refusal(self, now_s: float) -> str:
        """What a refused call is told."""
        if self.state is State.HALF_OPEN:
            return "did not answer in time; is being asked again"
        return f"did not answer in time; asked again in {max(0.0, self._refusing_until_s - now_s):.1f} s"

    def _is_try(self, began_s: float) -> bool:
        # What began before was admitted while the breaker was closed yet, and says nothing of how the server is now.
        return self.state is State.HALF_OPEN and began_s >= self._tried_s


@dataclass(slots=True)
class Call:
    """A call that was admitted. `telling`: whether its end will say anything of the server."""

    telling: bool = True


@contextmanager
def asking(
    breaker: Breaker,
    server: str,
    refused: type[Unavailable],
    *,
    timeouts: tuple[type[Exception], ...] = (TimeoutError,),
) -> Iterator[Call]:
    """One call of the server, by the breaker's leave; the breaker learns how it ended. `timeouts`: what is raised where
    the time limit has passed.

    Raises:
        Unavailable: of the kind `refused`, at once.
    """
    began_s = monotonic()
    if not breaker.admit(began_s):
        raise refused(f"{server} {breaker.refusal(began_s)}")
    call = Call()
    try:
        yield call
    except BaseException as error:
        if not call.telling or isinstance(error, asyncio.CancelledError):
            breaker.given_up(began_s, monotonic())
        elif isinstance(error, timeouts):
            breaker.timed_out(began_s, monotonic())
        else:
            breaker.failed(began_s, monotonic())
        raise
    if call.telling:
        breaker.answered(monotonic())
    else:
        breaker.given_up(began_s, monotonic())
