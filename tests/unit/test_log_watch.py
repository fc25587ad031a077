from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from benchmarks.log_faults import TRACEBACK, Fault, faults
from tests.log_watch import Expected, LogWatch, complaints

LINES = [
    ('{"event": "schedules.waiting", "level": "warning"}', None),
    ('{"event": "loop.failed", "level": "warning"}', "loop.failed"),
    ('{"event": "worker.killed", "level": "error"}', "worker.killed"),
    ('{"event": "odd", "level": "warning", "exception": "Traceback (most recent call last)"}', "odd"),
    ('{"event": "Task exception was never retrieved", "level": "error"}', "Task exception was never retrieved"),
    ('{"event": "http.request", "level": "info", "path": "/", "status": 499}', None),
    ('{"event": "http.request", "level": "info", "path": "/health/ready", "status": 503}', None),
    ('{"event": "http.request", "level": "info", "path": "/", "status": 500}', "http.500"),
    ('{"event": "worker.killed", "level": "err', None),
    ('{"event": "Traceback (most recent call last):\\n", "level": "error"}', TRACEBACK),
    ("Traceback (most recent call last):", TRACEBACK),
    ("Exception ignored in: <function f at 0x7f>", TRACEBACK),
    ("2026-11-25 15:58:01 [error    ] loop.failed                    loop=audit", "loop.failed"),
    ("2026-11-25 15:58:01 [warning  ] service.waiting                reason=[error]", None),
    ('  File "bridge/cli/serve.py", line 1, in serve', None),
]


@pytest.mark.parametrize(("line", "event"), LINES)
def test_line_tells_of_a_fault(line: str, event: str | None) -> None:
    assert [fault.event for fault in faults([line])] == ([] if event is None else [event])


@pytest.mark.parametrize(
    ("events", "expected", "complained"),
    [
        ([], [], 0),
        (["a"], [], 1),
        (["a"], [Expected.read("a")], 0),
        ([], [Expected.read("a")], 1),
        (["a", "a"], [Expected.read("a")], 1),
        (["a", "a"], [Expected.read("a", at_least=0, at_most=9)], 0),
        (["a", "b"], [Expected.read("a")], 1),
    ],
)
def test_faults_are_held_against_the_announced_ones(
    events: list[str], expected: list[Expected], complained: int
) -> None:
    assert len(complaints([Fault(event, event) for event in events], expected)) == complained


@pytest.fixture
def watch() -> Iterator[LogWatch]:
    watch = LogWatch()
    yield watch
    watch.close()


def test_watch_reads_what_a_log_gets_after_it_follows_it(watch: LogWatch, tmp_path: Path) -> None:
    log = tmp_path / "bridge.log"
    log.write_text('{"event": "old", "level": "error"}\n')
    watch.follow(log)
    with log.open("a") as end:
        end.write('{"event": "new", "level": "error"}\n')
    log.unlink()

    assert [fault.event for fault in watch.taken()] == ["new"]
    assert watch.taken() == []


@pytest.mark.expects_log("loop.failed")
def test_error_of_this_process_is_a_fault() -> None:
    structlog.get_logger().error("loop.failed")


@pytest.mark.expects_log("Task exception was never retrieved")
def test_error_of_a_standard_logger_is_a_fault() -> None:
    logging.getLogger("asyncio").error("Task exception was never retrieved\nfuture: <Task>")
