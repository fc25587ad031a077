"""Several worker processes of one `serve`: forked, started again when one ends, and told to end together.

    delaybridge serve
      |-- api-1         each accepts connections on sockets of its own at the same ports
      |-- api-2
      '-- checkpoint-1

The parent serves nobody. It holds the workers' sockets, so connections to one that is being started again wait for it
instead of being refused. Forked after all was imported, a worker starts in the tenth of a second, not in two.
"""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from time import monotonic
from typing import Final

import structlog

log = structlog.get_logger(__name__)

_AGAIN_S: Final = 1.0  # a worker that ends at once is started so often
_FOR_GOOD: Final = (2, 3)  # exit codes of what would end so again: a setting, a broker that is unfit
_TO_END: Final = (signal.SIGTERM, signal.SIGINT)


class Workers:
    def __init__(
        self, names: Sequence[str], work: Callable[[int, int], int], ending: Callable[[], None], *, within_s: float
    ) -> None:
        """`work`: runs the worker of this place, and has it stop when the pipe that it is given the reading end of is
        closed; returns its exit code. `ending`: called in the parent before the workers are told to end. One that has
        not ended `within_s` after that is killed."""
        self._names = names
        self._work = work
        self._ending = ending
        self._within_s = within_s
        self._running: dict[int, int] = {}  # places by process id
        self._start_s: dict[int, float] = {}  # by place: of those that are to be started, when
        self._started_s = [0.0] * len(names)

    def run(self) -> int:
        """Returns the exit code once all have ended: 0 when the process was told to end by a signal."""
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # who started us may ignore it, and then no exit code is kept
        signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGCHLD, *_TO_END))
        lifeline = os.pipe()  # a worker must not outlive its parent, however that ends
        self._start_s = dict.fromkeys(range(len(self._names)), 0.0)
        try:
            while True:
                self._start_due(lifeline)
                told = self._wait(min(self._start_s.values(), default=None))
                if told in _TO_END:
                    return 0
                for place, code in self._ended():
                    log.warning("worker.ended", worker=self._names[place], code=code)
                    if code in _FOR_GOOD:
                        return code
                    self._start_s[place] = max(monotonic(), self._started_s[place] + _AGAIN_S)
        finally:
            self._end()

    def _start_due(self, lifeline: tuple[int, int]) -> None:
        for place in [place for place, start_s in self._start_s.items() if start_s <= monotonic()]:
            del self._start_s[place]
            self._started_s[place] = monotonic()
            try:
                process = os.fork()
            except OSError as error:
                log.error("worker.not_started", worker=self._names[place], reason=str(error))  # noqa: TRY400
                self._start_s[place] = monotonic() + _AGAIN_S
                continue
            if process == 0:
                os.close(lifeline[1])
                _become(lambda place=place: self._work(place, lifeline[0]))  # type: ignore[misc]
            self._running[process] = place

    def _wait(self, until_s: float | None) -> int | None:
        """The signal that came, if any."""
        signals = (signal.SIGCHLD, *_TO_END)
        if until_s is None:
            return signal.sigwaitinfo(signals).si_signo
        came = signal.sigtimedwait(signals, max(0.0, until_s - monotonic()))
        return None if came is None else came.si_signo

    def _ended(self) -> list[tuple[int, int]]:
        """TopicsById of workers that have ended since, with their exit codes, negative for a signal."""
        ended: list[tuple[int, int]] = []
        for process in list(self._running):
            found, status = os.waitpid(process, os.WNOHANG)
            if found:
                ended.append((self._running.pop(process), os.waitstatus_to_exitcode(status)))
        return ended

    def _end(self) -> None:
        self._ending()
        for process in self._running:
            os.kill(process, signal.SIGTERM)
        give_up_s = monotonic() + self._within_s
        while self._running and monotonic() < give_up_s:
            self._wait(give_up_s)
            self._ended()
        for process, place in self._running.items():
            log.error("worker.killed", worker=self._names[place])
            os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)


def _become(work: Callable[[], int]) -> None:
    """The rest of a forked process's life."""
    code = 1
    try:
        # Ctrl-C reaches all that a terminal runs, and the parent passes it on.
        signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGCHLD, signal.SIGTERM))
        code = work()
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 1
    except BaseException:  # noqa: BLE001 - nothing may go on in the parent's place
        traceback.print_exc()
    finally:
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(code)
