"""Runs loops for as long as the process lives, and keeps the state of each loop.

A loop repeats a pass or a session. A pass ends by itself. A session uses a channel, and lasts until the channel is
lost. The loop goes on after every error. If a server is away, the loop tries again after a pause, of one second by
default. If the loop meets a bug, its pauses are 1 s, 2 s, 4 s and so on, up to 60 s. The loop's state shows the bug
until a whole pass has gone well. If the bug concerns one message or a session, the state shows it until the loop has
worked for 20 seconds without an error.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from math import inf
from time import monotonic, time
from typing import Final, NoReturn, Protocol

import structlog

from bridge.metrics.loops import FAILURES
from bridge.model.errors import Unavailable
from bridge.model.part_state import OK, STARTING, Failed, Ok, PartState, Waiting, worst
from bridge.model.recent import Recent

log = structlog.get_logger(__name__)

HOLD_S: Final = 20.0
"""How long a session must run without an error, after a bug, until its loop counts as working again. This time is
longer than the pause before a failed message (5 s) or bulk operation (15 s) is tried again."""

_LONGEST_PAUSE_S: Final = 60.0
_DOUBLINGS: Final = 6
_QUIET_S: Final = 60.0
"""The least time between two log lines of a loop that fails and recovers again and again."""
_KINDS: Final = 32
_MOST_AT_FAULT: Final = 1_000


class Reported(Protocol):
    """A loop's name and state. `name`: its name among the parts of all pools."""

    @property
    def name(self) -> str: ...

    @property
    def state(self) -> PartState: ...


class Loop(Protocol):
    """Work that never ends. `run` ends only when it is cancelled, and uses `retrying`."""

    @property
    def status(self) -> Reported: ...

    async def run(self) -> None: ...


class Status:
    """Keeps the state of one loop. It logs an outage once, and each kind of error once until the loop has recovered. It
    counts all errors."""

    def __init__(self, name: str, *, state: PartState = STARTING, retry_s: float = 1.0) -> None:
        """`state`: the first state. `retry_s`: the pause in seconds before the next try while a server is away."""
        self.name = name
        self._retry_s = retry_s
        self._failures = FAILURES.labels(name)
        self._now = state
        self._failed: Failed | None = None
        self._crashes = 0
        self._at_fault: Recent[str, None] = Recent(_MOST_AT_FAULT)
        self._is_crash = False  # the latest error ended a pass or a session
        self._troubled_s = -inf  # the latest moment at which the loop failed or was not working
        self._began_s = 0.0  # when the present failures began
        self._logged_s: Recent[str, float] = Recent(_KINDS)  # by kind of error
        self._warned_s = -_QUIET_S
        self._is_warned = False

    @property
    def state(self) -> PartState:
        """The loop's state. After a bug it is `Failed` until the loop works again, also while a server is away."""
        if self._failed is None or (isinstance(self._now, Ok) and monotonic() - self._troubled_s >= HOLD_S):
            return self._now
        return self._failed

    def passed(self) -> None:
        """Sets the state after a whole pass went well. Single messages of the pass may have failed."""
        if self._is_crash:
            self._troubled_s = -inf
        self._now, self._is_warned = OK, False
        self._recover()

    def working(self) -> None:
        """Sets the state when the session is open, and when a batch of it went well."""
        if not isinstance(self._now, Ok):
            self._troubled_s = monotonic()
            self._now = OK
        self._is_warned = False
        self._recover()

    def mended(self, items: Iterable[str]) -> None:
        """Sets the state after these items went well: a bug that concerned one of them is gone. `items`: the ids of
        messages, or the names of schedules, as `failed` got them; iterated only after a bug."""
        if not len(self._at_fault):
            return
        for item in items:
            self._at_fault.forget(item)
        if not len(self._at_fault) and not self._is_crash:
            self._troubled_s = -inf
            self._recover()

    def waits(self, error: Unavailable) -> None:
        """Sets the state when a server is away. If only one of several Redis servers is away, the loop still works on
        the others. So its state is then `Ok`, unless it shows a bug."""
        self._recover()
        if not error.partly:
            since_ms = self._now.since_ms if isinstance(self._now, Waiting) else int(time() * 1_000)
            self._now = Waiting(str(error), since_ms)
        elif self._failed is None:
            self._now = OK
        now_s = monotonic()
        if not self._is_warned and now_s - self._warned_s >= _QUIET_S:
            log.warning("loop.waiting", loop=self.name, reason=str(error))
            self._is_warned, self._warned_s = True, now_s

    def failed(self, error: BaseException, *, item: str = "", **what: object) -> None:
        """Sets the state after the loop met a bug, and logs the bug. `item`: the message's id or the schedule's name
        that the bug concerns; empty: it concerns none. `what`: further fields of the log line."""
        if item:
            self._at_fault.note(item, None)
            what["id"] = item
        before, now_s, name = self.state, monotonic(), type(error).__name__
        if isinstance(before, Failed):
            self._failed = Failed(name, before.since_ms, before.count + 1)
        else:
            self._failed = Failed(name, int(time() * 1_000), 1)
            self._began_s, self._crashes = now_s, 0
        self._troubled_s, self._is_crash = now_s, False
        self._failures.inc()
        kind = f"{name} at {_place(error)}"
        logged_s = self._logged_s.get(kind)
        if logged_s is None or (logged_s < self._began_s and now_s - logged_s >= _QUIET_S):
            self._logged_s.note(kind, now_s)
            log.error("loop.failed", loop=self.name, kind=kind, count=self._failed.count, exc_info=error, **what)

    async def attempt(self, once: Callable[[], Awaitable[float | None]]) -> float | None:
        """Runs a pass or a session, and sets the state by how it ended. Returns how many seconds to wait before the
        next pass or session; None: for ever. `once`: the pass or session; if it goes well, it returns these seconds or
        None."""
        try:
            pause_s = await once()
        except Unavailable as error:
            self.waits(error)
            return self._retry_s
        except (Exception, asyncio.CancelledError) as error:
            if isinstance(error, asyncio.CancelledError) and _is_cancelled():
                raise
            self._now = STARTING
            self.failed(error)
            self._is_crash = True
            pause_s = 2.0 ** min(self._crashes, _DOUBLINGS)
            self._crashes += 1
            return min(pause_s, _LONGEST_PAUSE_S)
        self.passed()
        return pause_s

    def _recover(self) -> None:
        """Forgets the errors if the loop works again."""
        if self._failed is not None and self.state is self._now:
            log.info("loop.recovered", loop=self.name, error=self._failed.error, count=self._failed.count)
            self._failed = None
            self._at_fault = Recent(_MOST_AT_FAULT)


class Joined:
    """The status of a loop that runs other loops. Its state is the worst state of those loops (`part_state.worst`)."""

    def __init__(self, name: str, others: Callable[[], Iterable[Reported]]) -> None:
        self.name = name
        self._others = others

    @property
    def state(self) -> PartState:
        return worst(other.state for other in self._others())


async def retrying(status: Status, once: Callable[[], Awaitable[float | None]]) -> NoReturn:
    """Repeats a pass or a session for ever, and sets `status` by how each ends. `once`: runs it, and returns how many
    seconds to wait before the next; None: for ever."""
    while True:
        pause_s = await status.attempt(once)
        await (asyncio.get_running_loop().create_future() if pause_s is None else asyncio.sleep(pause_s))


def _is_cancelled() -> bool:
    """Whether this task itself was cancelled, and not only something that it awaited."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


def _place(error: BaseException) -> str:
    """Returns the innermost line of the bridge in the error's trace, as `module:line`. Lines of this module do not
    count."""
    place, trace = "", error.__traceback__
    while trace is not None:
        module = trace.tb_frame.f_globals.get("__name__", "")
        if module.startswith("bridge.") and module != __name__:
            place = f"{module}:{trace.tb_lineno}"
        trace = trace.tb_next
    return place
