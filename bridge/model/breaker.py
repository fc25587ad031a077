"""Keeps a circuit breaker: while a server does not answer in time, one call at a time probes it, and others fail fast.

The breaker only saves waiting. So only a timeout opens it. A refused connection or an error costs no time; if such a
failure opened the breaker, callers would be refused after the server is back. One timeout is enough if the server has
answered no call since the timed-out call began. If it has answered another call, only the timed-out call was slow, and
the server is not away.
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
from bridge.model.time_limit import STALLED_S

_OPEN_S = 1.0
_LONGEST_S = 2.0  # the bridge uses a server again at most this long after its return


class BreakerState(IntEnum):
    CLOSED = 0
    HALF_OPEN = 1
    OPEN = 2


class Breaker:
    """Admits or refuses calls to one server. Moments are seconds of a monotonic clock. `began_s`: the moment when the
    breaker admitted a call, which identifies the call."""

    def __init__(self, *, open_s: float = _OPEN_S, longest_s: float = _LONGEST_S) -> None:
        """`open_s`: how many seconds the breaker stays open after the first timeout. Each failed probe doubles the
        time, up to `longest_s`."""
        self.state = BreakerState.CLOSED
        self.troubled_s = -inf
        """When a call last failed or timed out, or was not made because the server would not take it."""
        self._first_s = self._open_for_s = open_s
        self._longest_s = longest_s
        self._refusing_until_s = -inf
        self._tried_s = -inf
        self._heard_s = -inf
        self._excused_s = -inf

    def admit(self, now_s: float) -> bool:
        """Says whether a call may be made. The caller reports how an admitted call ended, by `answered`, `failed`,
        `timed_out` or `given_up`."""
        if self.state is BreakerState.CLOSED:
            return True
        if now_s < self._refusing_until_s:
            return False
        self.state = BreakerState.HALF_OPEN
        self._tried_s = now_s
        # After this time another probe is admitted, even if this one has not ended.
        self._refusing_until_s = now_s + self._longest_s
        return True

    def answered(self, now_s: float) -> None:
        self.state = BreakerState.CLOSED
        self._heard_s = now_s
        self._open_for_s = self._first_s

    def failed(self, began_s: float, now_s: float) -> None:
        """Reports a call that failed without waiting. Other calls will fail as fast, so they are admitted."""
        self.troubled_s = now_s
        if self._is_try(began_s):
            self.answered(now_s)

    def timed_out(self, began_s: float, now_s: float, late_s: float = 0.0) -> bool:
        """Reports a call whose time limit passed. Returns whether the timeout counts. `late_s`: how many seconds after
        the limit the call ended.

        The timeout does not count if this process was paused when the limit passed, because the answer may have come in
        time. The timeout of a call that began after such a pause counts even if the process was paused again, until the
        server has answered. The timers of a busy machine may always be late.
        """
        self.troubled_s = now_s
        if late_s > STALLED_S:
            if self._excused_s <= self._heard_s:
                self._excused_s = now_s
            if began_s < self._excused_s:
                self.given_up(began_s, now_s)
                return False
        if self._is_try(began_s) or (self.state is BreakerState.CLOSED and began_s > self._heard_s):
            self.state = BreakerState.OPEN
            self._refusing_until_s = now_s + self._open_for_s
            self._open_for_s = min(2 * self._open_for_s, self._longest_s)
        return True

    def given_up(self, began_s: float, now_s: float) -> None:
        """Reports a call whose end says nothing about the server. If this call was the probe, the next call is the
        probe."""
        if self._is_try(began_s):
            self.state = BreakerState.OPEN
            self._refusing_until_s = now_s

    def refusal(self, now_s: float) -> str:
        """Returns the reason for a refused call. The text continues a sentence that begins with the server's name."""
        if self.state is BreakerState.HALF_OPEN:
            return "did not answer in time; is being asked again"
        return f"did not answer in time; asked again in {max(0.0, self._refusing_until_s - now_s):.1f} s"

    def _is_try(self, began_s: float) -> bool:
        # An earlier call was admitted while the breaker was still closed. It says nothing about the server now.
        return self.state is BreakerState.HALF_OPEN and began_s >= self._tried_s


@dataclass(slots=True)
class GuardedCall:
    """A call that the breaker admitted. The caller sets `conclusive` to False if its end says nothing about the server.
    Afterwards `timed_out` says whether its time limit passed and the timeout counts (`Breaker.timed_out`)."""

    conclusive: bool = True
    timed_out: bool = False


@contextmanager
def guarded(
    breaker: Breaker,
    server: str,
    refused: type[Unavailable],
    *,
    limit_s: float,
    timeouts: tuple[type[Exception], ...] = (TimeoutError,),
) -> Iterator[GuardedCall]:
    """Runs the body of the `with` statement as one call to a server, and reports to the breaker how the call ended.
    `server`: the server's name in errors. `limit_s`: the time limit of the call, which the body keeps. `timeouts`: the
    exceptions that mean a passed time limit.

    Raises:
        Unavailable: the breaker refuses the call; the class of the error is `refused`.
    """
    began_s = monotonic()
    if not breaker.admit(began_s):
        raise refused(f"{server} {breaker.refusal(began_s)}")
    call = GuardedCall()
    try:
        yield call
    except BaseException as error:
        if not call.conclusive or isinstance(error, asyncio.CancelledError):
            breaker.given_up(began_s, monotonic())
        elif isinstance(error, timeouts):
            now_s = monotonic()
            call.timed_out = breaker.timed_out(began_s, now_s, now_s - began_s - limit_s)
        else:
            breaker.failed(began_s, monotonic())
        raise
    if call.conclusive:
        breaker.answered(monotonic())
    else:
        breaker.given_up(began_s, monotonic())
