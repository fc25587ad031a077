"""Runs callbacks in virtual time, in an order that a seed draws.

A turn of the loop lasts a microsecond. When nothing is ready, the clock jumps to the next timer. The callbacks of one
turn run in any order. The network keeps the order of each connection's bytes.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context, ContextVar, copy_context
from itertools import count
from random import Random
from typing import Any, Final, TypeVar, cast

from tests.simulate.clock import Clock

Result = TypeVar("Result")

WORLD: Final = 0
"""The number of what is no bridge process: servers, clients, faults."""

PROCESS: Final[ContextVar[int]] = ContextVar("process", default=WORLD)
"""The number of the process to which the running callback belongs."""

_SWEPT_FROM: Final = 256  # cancelled timers: then they leave the heap, if they are most of it

_MOST_TURNS: Final = 100_000  # in a second
_TURN_S: Final = 0.000_001  # that a turn lasts: without it, a wait for a rounding error's time would never end


class SimulatedHandle(asyncio.TimerHandle):
    """A callback that is ready, or a timer. Making one takes less time than making one of asyncio's."""

    __slots__ = ("process",)

    def __init__(
        self, callback: Callable[..., object], arguments: tuple[Any, ...], loop: SimulatedLoop, context: Context | None
    ) -> None:
        self._callback = callback
        self._args = arguments
        self._loop = loop
        self._context = copy_context() if context is None else context
        self._cancelled = False
        self._scheduled = False
        self._when = 0.0
        self._repr = self._source_traceback = None
        self.process = self._context.get(PROCESS, WORLD)


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

    _ready: deque[SimulatedHandle]
    _stopping: bool

    def __init__(self, clock: Clock, random: Random) -> None:
        super().__init__()
        self._clock = clock
        self._random = random
        self._timers: list[tuple[float, int, SimulatedHandle]] = []  # a heap; the number is the order of their making
        self._timer_numbers = count()
        self._cancelled_timers = 0  # in the heap
        self._tasks: set[asyncio.Task[Any]] = set()  # a dead process's too: the collector would close its coroutines
        self._frozen: dict[int, list[SimulatedHandle]] = {}
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

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *arguments: Any, context: Context | None = None
    ) -> SimulatedHandle:
        handle = SimulatedHandle(callback, arguments, self, context)
        self._ready.append(handle)
        return handle

    call_soon_threadsafe = call_soon  # type: ignore[assignment]
    """There is one thread."""

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., object], *arguments: Any, context: Context | None = None
    ) -> SimulatedHandle:
        return self.call_at(self._clock.monotonic_s + delay, callback, *arguments, context=context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *arguments: Any, context: Context | None = None
    ) -> SimulatedHandle:
        timer = SimulatedHandle(callback, arguments, self, context)
        timer._when = when
        timer._scheduled = True
        heapq.heappush(self._timers, (when, next(self._timer_numbers), timer))
        return timer

    def _timer_handle_cancelled(self, handle: SimulatedHandle) -> None:
        if not handle._scheduled:
            return
        self._cancelled_timers += 1
        if self._cancelled_timers > max(_SWEPT_FROM, len(self._timers) // 2):
            self._timers = [timer for timer in self._timers if not (timer[2]._cancelled or timer[2] is handle)]
            heapq.heapify(self._timers)
            self._cancelled_timers = 0

    def _run_once(self) -> None:
        self.turns += 1
        clock = self._clock
        clock.monotonic_s += _TURN_S
        if clock.monotonic_s - self._moved[1] > 1.0:
            self._moved = self.turns, clock.monotonic_s
        elif self.turns - self._moved[0] > _MOST_TURNS:
            raise Stuck(", ".join(sorted({_name(handle) for handle in self._ready})))
        timers = self._timers
        while timers and timers[0][2]._cancelled:
            heapq.heappop(timers)
            self._cancelled_timers -= 1
        if not self._ready and not self._stopping:
            if not timers:
                raise NothingToDo
            clock.monotonic_s = max(clock.monotonic_s, timers[0][0])
        while timers and timers[0][0] <= clock.monotonic_s:
            timer = heapq.heappop(timers)[2]
            timer._scheduled = False
            self._cancelled_timers -= timer._cancelled
            self._ready.append(timer)
        turn = [*self._ready]
        self._ready.clear()
        if len(turn) > 1:
            chance = self._random.random
            turn.sort(key=lambda _: chance())
        for handle in turn:
            self._run_handle(handle)

    def _run_handle(self, handle: SimulatedHandle) -> None:
        if handle._cancelled:
            return
        if handle.process in self._dead:
            self._kept.append(handle)
        elif handle.process in self._frozen:
            self._frozen[handle.process].append(handle)
        else:
            handle._run()

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
