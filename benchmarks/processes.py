"""Reads what processes use, as the kernel counts it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGESIZE")
_BLOCK_BYTES = 512  # the unit of st_blocks on every file system


def cpu_s(pids: Iterable[int]) -> float:
    """Returns the user and system time of these processes and of their running descendants."""
    return sum(_cpu_s(pid) for pid in _trees(pids))


def resident_mib(pids: Iterable[int]) -> float:
    """Returns the resident memory of these processes and of their descendants. Shared pages count several times."""
    return sum(_resident_mib(pid) for pid in _trees(pids))


def disk_bytes(folder: Path) -> int:
    """Returns the disk space of the files below a folder."""
    total = 0
    for path in folder.rglob("*"):
        with suppress(FileNotFoundError):  # a log may be replaced meanwhile
            total += path.lstat().st_blocks * _BLOCK_BYTES
    return total


def _trees(pids: Iterable[int]) -> Iterator[int]:
    for pid in pids:
        yield pid
        with suppress(FileNotFoundError, ProcessLookupError):
            for task in Path(f"/proc/{pid}/task").iterdir():
                yield from _trees(map(int, (task / "children").read_text().split()))


def _cpu_s(pid: int) -> float:
    """Returns the CPU time of all threads (proc(5), fields 14 and 15 of stat); 0: the process has ended."""
    with suppress(FileNotFoundError, ProcessLookupError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S
    return 0.0


def _resident_mib(pid: int) -> float:
    with suppress(FileNotFoundError, ProcessLookupError):
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE_BYTES / 1024**2
    return 0.0
