"""Limits how long a call to a server may last, and extends the limit once if this process was paused."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Final

STALLED_S: Final = 0.25  # a timer that comes so much too late shows that this process was paused


class TimeLimit:
    """An asynchronous context that raises `TimeoutError` if its body lasts longer than `limit_s` seconds.

    A process may be frozen, or one callback may keep its event loop busy. Then the answer may have come in time, and
    lie unread. So if the timer of the limit fires more than a quarter of a second late, the body may last longer, once:
    by as much as the timer was late, but at most by `limit_s`. `limit_s` None: there is no limit.
    """

    def __init__(self, limit_s: float | None) -> None:
        self._limit_s = limit_s
        self._timeout = asyncio.timeout(None)
        self._timer: asyncio.TimerHandle | None = None

    async def __aenter__(self) -> None:
        await self._timeout.__aenter__()
        if self._limit_s is not None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(self._limit_s, self._passed, loop.time() + self._limit_s, self._limit_s)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._timer is not None:
            self._timer.cancel()
        await self._timeout.__aexit__(kind, error, trace)

    def _passed(self, due_s: float, limit_s: float) -> None:
        loop = asyncio.get_running_loop()
        late_s = loop.time() - due_s
        if late_s > STALLED_S:
            self._timer = loop.call_later(min(late_s, limit_s), self._end)
        else:
            self._end()

    def _end(self) -> None:
        self._timeout.reschedule(asyncio.get_running_loop().time())
