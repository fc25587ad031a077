"""Runs callbacks in virtual time, in an order that a seed draws.

A turn of the loop lasts a microsecond. When nothing is ready, the clock jumps to the next timer. The callbacks of one
turn run in any order. The network keeps the order of each connection's bytes.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context, ContextVar
from itertools import count
from random import Random
from typing import Any, Final, Protocol, TypeVar, cast

from tests.simulate.clock import Clock

Result = TypeVar("Result")

WORLD: Final = 0
"""The number of what is no bridge process: servers, clients, faults."""

PROCESS: Final[ContextVar[int]] = ContextVar("process", default=WORLD)
"""The number of the process to which the running callback belongs."""

_SWEPT_EVERY: Final = 1_024  # turns: then the cancelled timers leave the heap, if they are most of it

_MOST_TURNS: Final = 100_000  # in a second
_TURN_S: Final = 0.000_001  # that a turn lasts: without it, a wait for a rounding error's time would never end


class _Handle(Protocol):
    """The parts of `asyncio.TimerHandle` that its type does not show."""

    _context: Context
    _cancelled: bool
    _scheduled: bool

    def _run(self) -> None: ...


class NothingToDo(Exception):
    """No callback is ready, and no timer runs: everybody waits for ever."""


class Stuck(Exception):
    """Callbacks go on without a pause. The text names those that are ready."""


class SimulatedTask(asyncio.Task[Any]):
    """A task whose hash is its number, so that sets of tasks have the same order in each run."""

    numbers = count(1)

    def __init__(self, coroutine: Coroutine[Any, Any, Any], **options: Any) -> None:
        self._number = next(self.numbers)
        super().__init__(coroutine, **options)

    def __hash__(self) -> int:
        return self._number


class SimulatedFuture(asyncio.Future[Any]):
    """A future whose hash is its number."""

    numbers = count(1)

    def __init__(self, *, loop: asyncio.AbstractEventLoop) -> None:
        self._number = next(self.numbers)
        super().__init__(loop=loop)

    def __hash__(self) -> int:
        return self._number


def _name(handle: asyncio.Handle) -> str:
    callback = cast(Any, handle)._callback
    owner = getattr(callback, "__self__", None)
    named = owner.get_coro() if isinstance(owner, asyncio.Task) else callback
    return str(getattr(named, "__qualname__", type(named).__name__))


class SimulatedLoop(asyncio.BaseEventLoop):
    """The event loop of a simulation. `connect`: opens a connection to a simulated server; the network sets it."""

    _ready: deque[asyncio.Handle]
    _scheduled: list[asyncio.TimerHandle]
    _stopping: bool

    def __init__(self, clock: Clock, random: Random) -> None:
        super().__init__()
        self._clock = clock
        self._random = random
        self._tasks: set[asyncio.Task[Any]] = set()  # a dead process's too: the collector would close its coroutines
        self._frozen: dict[int, list[asyncio.Handle]] = {}
        self._dead: set[int] = set()
        self._kept: list[object] = []  # what dead processes would still have run
        self.turns = 0
        self._moved = (0, 0.0)  # the turn and the moment in which the time last moved
        self.connect: Callable[..., Coroutine[Any, Any, Any]] | None = None
        self.set_task_factory(self._task)

    # Processes

    def kill(self, process: int) -> None:
        """Lets no callback of the process run from now on."""
        self._dead.add(process)
        self._kept.append(self._frozen.pop(process, None))

    def freeze(self, process: int) -> None:
        """Holds back the callbacks of the process until `thaw`."""
        self._frozen.setdefault(process, [])

    def thaw(self, process: int) -> None:
        self._ready.extend(self._frozen.pop(process, ()))

    # Time

    def time(self) -> float:
        return self._clock.monotonic_s

    def _run_once(self) -> None:
        self.turns += 1
        self._forget_cancelled()
        self._clock.monotonic_s += _TURN_S
        if self._clock.monotonic_s - self._moved[1] > 1.0:
            self._moved = self.turns, self._clock.monotonic_s
        elif self.turns - self._moved[0] > _MOST_TURNS:
            raise Stuck(", ".join(sorted({_name(handle) for handle in self._ready})))
        timers = self._scheduled
        if not self._ready and not self._stopping:
            if not timers:
                raise NothingToDo
            self._clock.monotonic_s = max(self._clock.monotonic_s, timers[0].when())
        while timers and timers[0].when() <= self._clock.monotonic_s:
            timer = heapq.heappop(timers)
            cast(_Handle, timer)._scheduled = False
            self._ready.append(timer)
        turn = [*self._ready]
        self._ready.clear()
        if len(turn) > 1:
            self._random.shuffle(turn)
        for handle in turn:
            self._run_handle(handle)

    def _run_handle(self, handle: asyncio.Handle) -> None:
        inner = cast(_Handle, handle)
        if inner._cancelled:
            return
        process = inner._context.get(PROCESS, WORLD)
        if process in self._dead:
            self._kept.append(handle)
        elif process in self._frozen:
            self._frozen[process].append(handle)
        else:
            inner._run()

    def _forget_cancelled(self) -> None:
        timers = self._scheduled
        while timers and timers[0].cancelled():
            cast(_Handle, heapq.heappop(timers))._scheduled = False
        if self.turns % _SWEPT_EVERY:
            return
        cancelled = [timer for timer in timers if timer.cancelled()]
        if len(cancelled) > len(timers) // 2:
            for timer in cancelled:
                cast(_Handle, timer)._scheduled = False
            timers[:] = [timer for timer in timers if not timer.cancelled()]
            heapq.heapify(timers)

    # What a real loop has a selector and threads for

    def _write_to_self(self) -> None:
        """Does nothing: no other thread waits for this loop."""

    def _process_events(self, event_list: object) -> None:
        """Does nothing: there is no selector."""

    async def create_connection(self, *arguments: Any, **options: Any) -> Any:
        assert self.connect is not None, "this loop has no network"
        return await self.connect(*arguments, **options)

    def run_in_executor(  # type: ignore[override]
        self, executor: object, work: Callable[..., Result], *arguments: Any
    ) -> asyncio.Future[Result]:
        """Runs the work at once, in this thread."""
        done: asyncio.Future[Result] = self.create_future()
        try:
            done.set_result(work(*arguments))
        except Exception as error:  # noqa: BLE001 - the caller gets it
            done.set_exception(error)
        return done

    def create_future(self) -> asyncio.Future[Any]:
        return SimulatedFuture(loop=self)

    def _task(self, loop: asyncio.AbstractEventLoop, work: Any, context: Context | None = None) -> asyncio.Task[Any]:
        task = SimulatedTask(work, loop=loop, context=context)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task
