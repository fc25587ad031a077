"""Tests forking, restart and shutdown of workers, with real processes that do no other work."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

# Each worker writes its place and process id, then waits for a signal or for the end of its parent.
WORKERS = """
import os, select, signal, sys
import structlog
from bridge.cli.workers import Workers
structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
def say(*words):
    os.write(1, (" ".join(map(str, words)) + "\\n").encode())  # one write a line: lines do not mix
class Unflushable:
    def flush(self):
        raise OSError("the disk is full")
def work(place, lifeline):
    {first}
    if place == 1 and {code} is not None:
        return {code}
    say("started", place, os.getpid())
    select.select([lifeline], [], [])
    say("cut off", place)
    return 0
def ending():
    say("ending")
raise SystemExit(Workers(["one", "two"], work, ending, within_s={within_s}).run())
"""


def program(*, code: int | None = None, first: str = "pass", within_s: float = 30) -> str:
    """The source of the parent program. Each worker runs `first`; worker 1 then returns `code`, if set."""
    return WORKERS.format(code=code, first=first, within_s=within_s)


class Parent:
    """A parent process with two workers, and the lines they write."""

    def __init__(self, text: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", text], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        self._output = self.process.stdout

    def started(self) -> dict[int, int]:
        """The process ids of the next two workers that start, by place."""
        lines = [self._output.readline().split() for _ in range(2)]
        return {int(place): int(pid) for _, place, pid in lines}

    def next_started(self) -> tuple[int, int]:
        _, place, pid = self._output.readline().split()
        return int(place), int(pid)

    def rest(self) -> list[str]:
        return self._output.read().splitlines()


@pytest.fixture
def parent() -> Iterator[Parent]:
    parent = Parent(program())
    yield parent
    parent.process.kill()
    parent.process.communicate()


@pytest.mark.parametrize("ending_signal", [signal.SIGTERM, signal.SIGINT])
def test_sigterm_or_sigint_ends_all_workers_with_exit_code_0(parent: Parent, ending_signal: signal.Signals) -> None:
    pids = parent.started()
    parent.process.send_signal(ending_signal)

    assert parent.rest() == ["ending"]
    assert parent.process.wait() == 0
    for pid in pids.values():
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_killed_worker_is_restarted_in_the_same_place(parent: Parent) -> None:
    before = parent.started()
    os.kill(before[1], signal.SIGKILL)

    place, pid = parent.next_started()

    assert place == 1
    assert pid != before[1]
    os.kill(before[0], 0)


def test_workers_end_when_their_parent_is_killed(parent: Parent) -> None:
    parent.started()
    parent.process.kill()

    # Only the workers still hold the pipe open, so this reads until both have ended.
    assert sorted(parent.rest()) == ["cut off 0", "cut off 1"]


def test_worker_that_exits_with_3_ends_all_with_exit_code_3() -> None:
    refused = subprocess.run([sys.executable, "-c", program(code=3)], capture_output=True, text=True, check=False)

    assert refused.returncode == 3
    # The other worker may print that it started after that.
    assert [line for line in refused.stdout.splitlines() if not line.startswith("started")] == ["ending"]


def test_worker_whose_output_flush_fails_does_not_run_the_parents_code() -> None:
    text = program(code=3, first="sys.stdout = Unflushable()")
    refused = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False)

    assert refused.returncode == 3
    assert refused.stdout.splitlines().count("ending") == 1


def test_exit_code_is_kept_when_sigchld_was_ignored_at_the_start() -> None:
    ignoring = ["sh", "-c", 'trap "" CHLD; exec "$0" -c "$1"', sys.executable, program(code=3)]

    assert subprocess.run(ignoring, capture_output=True, check=False).returncode == 3


def test_worker_that_misses_the_stop_deadline_is_killed() -> None:
    parent = Parent(program(first="signal.signal(signal.SIGTERM, signal.SIG_IGN)", within_s=0.1))
    pids = parent.started()
    parent.process.terminate()

    assert parent.rest() == ["ending"]
    assert parent.process.wait() == 0
    for pid in pids.values():
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
    parent.process.communicate()
