"""Shares few connections to Redis among many callers.

While a connection is free, a call is sent by itself. A call that finds every connection busy waits. When a connection
is free again, waiting calls are sent over it as one pipeline. So the number of connections has a bound, and more
callers mean fuller pipelines, not refusals.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from copy import copy
from dataclasses import dataclass

from bridge.model.errors import StoreUnavailable
from bridge.model.time_limit import TimeLimit
from bridge.store.replies import Reply
from bridge.store.servers.servers import PackedCommand

PLACES = 4
"""The most connections to one server. Redis runs commands one by one, so more connections would gain nothing."""

MOST_COMMANDS = 6
"""The most commands of several callers in one pipeline; a caller with more commands gets a separate pipeline. The
answers of a pipeline wake all its callers in one turn of the event loop. With a thousand callers, everything else in
the process would wait for seconds."""

MOST_WAITING = 8_192
"""The most callers that wait at once: twice the HTTP connections that a process has by default."""

Run = Callable[[Sequence[PackedCommand], bool], Awaitable[list[Reply]]]


@dataclass(slots=True)
class _Caller:
    commands: Sequence[PackedCommand]
    timed: bool
    answers: asyncio.Future[list[Reply]]


class Pipelines:
    def __init__(self, run: Run, *, limit_s: float, places: int = PLACES, most_waiting: int = MOST_WAITING) -> None:
        """`run`: sends commands over one connection and returns their answers. Its second argument says that the first
        answer carries the server's time. `limit_s`: how long a caller waits for a connection and its answers together.
        `places`: the most connections in use at once. `most_waiting`: the most callers that wait for one."""
        self._run = run
        self._limit_s = limit_s
        self._places = places
        self._most_waiting = most_waiting
        self._taken = 0
        self._waiting: deque[_Caller] = deque()
        self._shared: set[asyncio.Task[None]] = set()

    async def ask(self, commands: Sequence[PackedCommand], timed: bool) -> list[Reply]:
        """Sends the commands at once, or together with commands of other callers when a connection is free. Returns the
        answers in order. `timed`: the first answer carries the server's time.

        Raises:
            StoreUnavailable: too many callers wait already.
            TimeoutError: no connection was free, or no answer came, in time. The commands may have run.
        """
        if self._taken < self._places:
            self._taken += 1
            try:
                return await self._run(commands, timed)
            finally:
                self._free()
        if len(self._waiting) >= self._most_waiting:
            raise StoreUnavailable(f"{self._most_waiting} calls wait for Redis already, which is the limit")
        caller = _Caller(commands, timed, asyncio.get_running_loop().create_future())
        self._waiting.append(caller)
        async with TimeLimit(self._limit_s):
            return await caller.answers

    def _free(self) -> None:
        """Gives a connection's place to callers that wait. If none waits, the place becomes free."""
        callers = self._next_callers()
        if not callers:
            self._taken -= 1
            return
        task = asyncio.create_task(self._run_shared(callers))
        self._shared.add(task)
        task.add_done_callback(self._shared.discard)

    def _next_callers(self) -> list[_Caller]:
        callers: list[_Caller] = []
        count = 0
        while self._waiting and (not callers or count + len(self._waiting[0].commands) <= MOST_COMMANDS):
            caller = self._waiting.popleft()
            # The commands of a caller that has given up are not sent.
            if not caller.answers.done():
                callers.append(caller)
                count += len(caller.commands)
        return callers

    async def _run_shared(self, callers: Sequence[_Caller]) -> None:
        # A timed caller goes first: its answer carries the server's time.
        callers = sorted(callers, key=lambda caller: not caller.timed)
        commands = [command for caller in callers for command in caller.commands]
        (answers,) = await asyncio.gather(self._run(commands, callers[0].timed), return_exceptions=True)
        self._free()
        if isinstance(answers, BaseException):
            for caller in callers:
                if not caller.answers.done():
                    # An exception that several tasks raise would become its own cause.
                    caller.answers.set_exception(copy(answers))
            return
        start = 0
        for caller in callers:
            end = start + len(caller.commands)
            if not caller.answers.done():
                caller.answers.set_result(answers[start:end])
            start = end
