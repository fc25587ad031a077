"""Workers that are forked, started again, and told to end together: real processes that do nothing else."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

# Each says who it is and then waits to be told to end, or for its parent to be gone.
WORKERS = """
import os, select, signal, sys
import structlog
from bridge.cli.workers import Workers
structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
def say(*words):
    os.write(1, (" ".join(map(str, words)) + "\\n").encode())  # a line at once, whoever else writes
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
    """`first`: what a worker does before all else."""
    return WORKERS.format(code=code, first=first, within_s=within_s)


class Parent:
    """The parent of two workers, and what they say."""

    def __init__(self, text: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", text], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        self._said = self.process.stdout

    def started(self) -> dict[int, int]:
        """The process ids of the next two that start, by place."""
        said = [self._said.readline().split() for _ in range(2)]
        return {int(place): int(pid) for _, place, pid in said}

    def next_started(self) -> tuple[int, int]:
        _, place, pid = self._said.readline().split()
        return int(place), int(pid)

    def rest(self) -> list[str]:
        return self._said.read().splitlines()


@pytest.fixture
def parent() -> Iterator[Parent]:
    one = Parent(program())
    yield one
    one.process.kill()
    one.process.communicate()


@pytest.mark.parametrize("told", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_all_of_them_and_the_exit_code_is_0(parent: Parent, told: signal.Signals) -> None:
    pids = parent.started()
    parent.process.send_signal(told)

    assert parent.rest() == ["ending"]
    assert parent.process.wait() == 0
    for pid in pids.values():
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_a_worker_that_is_killed_is_started_again_in_its_place(parent: Parent) -> None:
    before = parent.started()
    os.kill(before[1], signal.SIGKILL)

    place, pid = parent.next_started()

    assert place == 1
    assert pid != before[1]
    os.kill(before[0], 0)


def test_workers_do_not_outlive_a_parent_that_is_killed(parent: Parent) -> None:
    parent.started()
    parent.process.kill()

    # Their end of the pipe is the last that is open, so this reads until both are gone.
    assert sorted(parent.rest()) == ["cut off 0", "cut off 1"]


def test_a_worker_that_would_end_so_again_ends_all_with_its_exit_code() -> None:
    refused = subprocess.run([sys.executable, "-c", program(code=3)], capture_output=True, text=True, check=False)

    assert refused.returncode == 3
    assert refused.stdout.splitlines()[-1] == "ending"


def test_a_worker_whose_last_words_nobody_takes_ends_as_itself_and_nobody_else() -> None:
    text = program(code=3, first="sys.stdout = Unflushable()")
    refused = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False)

    assert refused.returncode == 3
    assert refused.stdout.splitlines().count("ending") == 1


def test_exit_codes_are_kept_where_who_started_the_parent_ignores_its_children() -> None:
    ignoring = ["sh", "-c", 'trap "" CHLD; exec "$0" -c "$1"', sys.executable, program(code=3)]

    assert subprocess.run(ignoring, capture_output=True, check=False).returncode == 3


def test_a_worker_that_does_not_end_in_time_is_killed() -> None:
    one = Parent(program(first="signal.signal(signal.SIGTERM, signal.SIG_IGN)", within_s=0.1))
    pids = one.started()
    one.process.terminate()

    assert one.rest() == ["ending"]
    assert one.process.wait() == 0
    for pid in pids.values():
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
    one.process.communicate()
