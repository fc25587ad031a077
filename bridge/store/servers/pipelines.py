"""Shares few connections among many callers.

While a place is free, a call goes out by itself. A call that finds every place taken waits, and goes out with the
others that wait, as one pipeline. So the number of connections has a bound, and more callers mean fuller pipelines,
not refusals.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any

from bridge.model.errors import StoreUnavailable
from bridge.store.servers.servers import Question

PLACES = 16
"""Pipelines in flight at once, each on a connection of its own. Redis runs commands one by one: more gain nothing."""

MOST_QUESTIONS = 1_024
"""Commands in one shared pipeline, so that its last caller does not wait for thousands of other answers."""

MOST_WAITING = 8_192
"""Callers that wait at once: twice as many as a process has HTTP connections."""

Run = Callable[[Sequence[Question], bool], Awaitable[list[Any]]]


@dataclass(slots=True)
class _Caller:
    questions: Sequence[Question]
    timed: bool
    answers: asyncio.Future[list[Any]]


class Pipelines:
    def __init__(self, run: Run, *, limit_s: float, places: int = PLACES, most_waiting: int = MOST_WAITING) -> None:
        """`run`: asks over one connection. Its second argument says that the first answer carries the server's time.
        `limit_s`: how long a caller waits for a place and for its answers together."""
        self._run = run
        self._limit_s = limit_s
        self._places = places
        self._most_waiting = most_waiting
        self._taken = 0
        self._waiting: deque[_Caller] = deque()
        self._shared: set[asyncio.Task[None]] = set()

    async def ask(self, questions: Sequence[Question], timed: bool) -> list[Any]:
        """Asks at once, or with other callers as soon as a place is free; the answers in order.

        Raises:
            StoreUnavailable: too many callers wait already.
            TimeoutError: no place was free, or no answer came, in time. The questions may have been asked.
        """
        if self._taken < self._places:
            self._taken += 1
            try:
                return await self._run(questions, timed)
            finally:
                self._free()
        if len(self._waiting) >= self._most_waiting:
            raise StoreUnavailable(f"{self._most_waiting} calls wait for Redis already, which is the limit")
        caller = _Caller(questions, timed, asyncio.get_running_loop().create_future())
        self._waiting.append(caller)
        async with asyncio.timeout(self._limit_s):
            return await caller.answers

    def _free(self) -> None:
        """Gives the place to the callers that wait, or leaves it free."""
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
        while self._waiting and (not callers or count + len(self._waiting[0].questions) <= MOST_QUESTIONS):
            caller = self._waiting.popleft()
            # A caller that has given up is done: its questions are not asked.
            if not caller.answers.done():
                callers.append(caller)
                count += len(caller.questions)
        return callers

    async def _run_shared(self, callers: Sequence[_Caller]) -> None:
        # A timed caller goes first: its answer carries the server's time.
        callers = sorted(callers, key=lambda caller: not caller.timed)
        questions = [question for caller in callers for question in caller.questions]
        (answers,) = await asyncio.gather(self._run(questions, callers[0].timed), return_exceptions=True)
        self._free()
        if isinstance(answers, BaseException):
            for caller in callers:
                if not caller.answers.done():
                    # An exception that several tasks raise would become its own cause.
                    caller.answers.set_exception(copy(answers))
            return
        start = 0
        for caller in callers:
            end = start + len(caller.questions)
            if not caller.answers.done():
                caller.answers.set_result(answers[start:end])
            start = end
