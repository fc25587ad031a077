"""Tests that the meter of another process counts what the kernel counts."""

import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.guard.meter import SOFTWARE_TASK_CLOCK, CpuTime, Instructions, Uncounted, processes

# Reads a number of ms from each line, works for that much CPU time, and answers. A new thread does half of the work.
WORKER = """
import sys, threading, time
def work(until):
    while time.thread_time() < until: pass
for line in sys.stdin:
    half = float(line) / 2_000
    thread = threading.Thread(target=work, args=(half,))
    thread.start(); thread.join()
    work(time.thread_time() + half)
    print("done", flush=True)
"""


class Worker:
    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.pid, self._process = process.pid, process

    def work(self, ms: int) -> None:
        assert self._process.stdin
        assert self._process.stdout
        print(ms, file=self._process.stdin, flush=True)
        assert self._process.stdout.readline() == "done\n"


@pytest.fixture
def worker() -> Iterator[Worker]:
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", WORKER]
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, start_new_session=True) as process:
        worker = Worker(process)
        worker.work(1)
        yield worker
        process.kill()


def test_cpu_time_is_that_of_all_threads(worker: Worker) -> None:
    meter = CpuTime(worker.pid)
    before = meter.read()
    worker.work(200)
    assert 199_000 < meter.read() - before < 400_000


def test_the_kernels_counter_counts_threads_that_start_later(worker: Worker) -> None:
    try:
        counted = Instructions(worker.pid, SOFTWARE_TASK_CLOCK)  # in thousands of ns: the same as CPU time, in us
    except Uncounted as why:
        pytest.skip(f"the kernel counts nothing for this user: {why}")
    timed = CpuTime(worker.pid)
    before = counted.read(), timed.read()
    worker.work(200)
    after = counted.read(), timed.read()
    assert after[0] - before[0] == pytest.approx(after[1] - before[1], rel=0.1)


def test_no_other_sessions_process_is_counted(worker: Worker) -> None:
    assert processes(worker.pid) == [worker.pid]
