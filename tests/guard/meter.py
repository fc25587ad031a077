"""Measures what a process uses: instructions where the kernel counts them for this user, else CPU time."""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import ClassVar, Final, Protocol

HARDWARE_INSTRUCTIONS: Final = (0, 1)
SOFTWARE_TASK_CLOCK: Final = (1, 1)

_PERF_EVENT_OPEN: Final = {"x86_64": 298, "aarch64": 241}  # the system call's number, by machine
_CLOSE_ON_EXEC: Final = 8
_ATTRIBUTES_BYTES: Final = 128
_INHERIT, _EXCLUDE_KERNEL, _EXCLUDE_HYPERVISOR = 1 << 1, 1 << 5, 1 << 6
_CPU_TIME: Final = 2  # the clock that clock_getcpuclockid(3) is about


class Uncounted(Exception):
    """The kernel does not count this here: no such counter (in most virtual machines), or not for this user."""


class Meter(Protocol):
    unit: str

    def read(self) -> float:
        """Returns how much was used so far, in `unit`."""


class Instructions:
    """Counts the instructions of a session outside of the kernel, in thousands (perf_event_open(2)). It counts all
    threads of the session's processes, and threads that start later. `pid`: the program that began the session.

    Raises:
        Uncounted.
    """

    unit = "thousand instructions"
    _per_unit: ClassVar[float] = 1_000

    def __init__(self, pid: int, event: tuple[int, int] = HARDWARE_INSTRUCTIONS) -> None:
        self._counters: list[int] = []
        for thread in (thread for process in processes(pid) for thread in _threads(process)):
            with suppress(ProcessLookupError):  # the process has just ended
                self._counters.append(_counter(thread, event))

    def read(self) -> float:
        return sum(int.from_bytes(os.read(counter, 8), sys.byteorder) for counter in self._counters) / self._per_unit

    def __del__(self) -> None:
        for counter in self._counters:
            os.close(counter)


class CpuTime:
    """Counts the CPU time of all processes of a session in microseconds, with the time in the kernel."""

    unit = "us of CPU"

    def __init__(self, pid: int) -> None:
        self._pid = pid

    def read(self) -> float:
        return sum(time.clock_gettime_ns(~pid << 3 | _CPU_TIME) for pid in processes(self._pid)) / 1_000


def meter(pid: int) -> Meter:
    try:
        return Instructions(pid)
    except Uncounted:
        return CpuTime(pid)


def processes(session: int) -> list[int]:
    """Returns the processes of the session. `session`: the id of the process that began it."""
    everybody = (int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit())
    return [pid for pid in everybody if _session(pid) == session]


def _session(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except OSError:
        return None


def _threads(pid: int) -> list[int]:
    return [int(path.name) for path in Path(f"/proc/{pid}/task").iterdir()]


def _counter(thread: int, event: tuple[int, int]) -> int:
    number = _PERF_EVENT_OPEN.get(platform.machine())
    if number is None:
        raise Uncounted(platform.machine())
    kind, config = event
    attributes = bytearray(_ATTRIBUTES_BYTES)
    flags = _INHERIT | _EXCLUDE_KERNEL | _EXCLUDE_HYPERVISOR
    struct.pack_into("=IIQQQQQ", attributes, 0, kind, _ATTRIBUTES_BYTES, config, 0, 0, 0, flags)
    given = (ctypes.c_char * _ATTRIBUTES_BYTES).from_buffer(attributes)
    counter = int(ctypes.CDLL(None, use_errno=True).syscall(number, given, thread, -1, -1, _CLOSE_ON_EXEC))
    if counter < 0 and ctypes.get_errno() == errno.ESRCH:
        raise ProcessLookupError(thread)
    if counter < 0:
        raise Uncounted(os.strerror(ctypes.get_errno()))
    return counter
