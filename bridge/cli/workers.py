"""Runs the worker processes of one `serve`: forks them, restarts a worker that ends, and stops all workers together.

    delaybridge serve
      |-- api-1         each accepts connections on its own sockets, at the same ports
      |-- api-2
      '-- checkpoint-1

The parent serves no client. It holds the workers' sockets, so a connection to a worker that restarts waits and is not
refused. The parent forks after all imports, so a worker starts in 0.1 s and not in 2 s.
"""

from __future__ import annotations

import math
import os
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from time import monotonic
from typing import Final

import structlog

from bridge.cli.joined_notices import JoinedNotices

log = structlog.get_logger(__name__)

_RESTART_S: Final = 1.0  # a worker starts at most once in this time
_FATAL_CODES: Final = (2, 3)  # exit codes for faults that a restart does not mend: a wrong setting, an unfit broker
_STOP_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


class Workers:
    def __init__(
        self,
        names: Sequence[str],
        work: Callable[[int, int], int],
        ending: Callable[[], None],
        *,
        within_s: float,
        notices: JoinedNotices | None = None,
    ) -> None:
        """`names`: the workers' names. `work(place, pipe)` runs the worker number `place` and returns its exit code.
        `pipe`: the read end of a pipe; a worker must stop when the write end is closed. The parent calls `ending`
        before it stops the workers, and kills workers that have not ended `within_s` seconds later. `notices`: joins
        the workers' notices for systemd; None: no systemd."""
        self._names = names
        self._work = work
        self._ending = ending
        self._within_s = within_s
        self._notices = notices
        self._running: dict[int, int] = {}  # places by process id
        self._start_s: dict[int, float] = {}  # by place: when to start workers that are not running
        self._started_s = [0.0] * len(names)

    def run(self) -> int:
        """Runs until a signal stops the process, or until a worker ends with the exit code 2 or 3. These codes name
        faults that a restart does not mend. Then waits until all workers have ended. Returns 0 after a signal, else the
        worker's exit code."""
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # if our parent ignores it, the kernel keeps no exit codes
        signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGCHLD, *_STOP_SIGNALS))
        lifeline = os.pipe()  # its writing end closes with the parent, so no worker outlives a killed parent
        self._start_s = dict.fromkeys(range(len(self._names)), 0.0)
        try:
            while True:
                self._start_due(lifeline)
                received = self._wait(min(self._start_s.values(), default=None))
                if received in _STOP_SIGNALS:
                    return 0
                for place, code in self._ended():
                    log.warning("worker.ended", worker=self._names[place], code=code)
                    if code in _FATAL_CODES:
                        return code
                    self._start_s[place] = max(monotonic(), self._started_s[place] + _RESTART_S)
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
                self._start_s[place] = monotonic() + _RESTART_S
                continue
            if process == 0:
                os.close(lifeline[1])
                _become(lambda place=place: self._work(place, lifeline[0]))  # type: ignore[misc]
            self._running[process] = place
            if self._notices is not None:
                self._notices.started(place)

    def _wait(self, until_s: float | None) -> int | None:
        """Waits for a signal and returns its number. `until_s`: the deadline, in seconds of `monotonic()`; None: no
        limit. Returns None if no signal came in time, or if it is time to read the workers' notices."""
        signals = (signal.SIGCHLD, *_STOP_SIGNALS)
        if self._notices is not None:
            self._notices.join()
            until_s = min(until_s or math.inf, monotonic() + self._notices.pause_s)
        if until_s is None:
            return signal.sigwaitinfo(signals).si_signo
        info = signal.sigtimedwait(signals, max(0.0, until_s - monotonic()))
        return None if info is None else info.si_signo

    def _ended(self) -> list[tuple[int, int]]:
        """Returns the places and exit codes of workers that have ended since the last call. The code of a worker that a
        signal ended is negative."""
        ended: list[tuple[int, int]] = []
        for process in list(self._running):
            reaped, status = os.waitpid(process, os.WNOHANG)
            if reaped:
                ended.append((self._running.pop(process), os.waitstatus_to_exitcode(status)))
        return ended

    def _end(self) -> None:
        if self._notices is not None:
            self._notices.stopping()
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
        if self._notices is not None:
            self._notices.close()


def _become(work: Callable[[], int]) -> None:
    """Runs a forked worker to its end and exits the process."""
    code = 1
    try:
        # SIGINT stays blocked: a terminal sends Ctrl-C to every process, and the parent stops the workers.
        signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGCHLD, signal.SIGTERM))
        code = work()
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 1
    except BaseException:  # noqa: BLE001 - a worker must not continue with the parent's code
        traceback.print_exc()
    finally:
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(code)
