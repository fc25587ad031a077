"""Fails a test whose programs logged a fault that it did not announce with the mark `expects_log`.

The watch follows the log of each bridge and each door that a test starts, and what this process itself logs. A fixture
of a module or of the session ends after its last test, which then fails in its place.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Self

import pytest
import structlog

from benchmarks.log_faults import Fault, event_of, faults
from bridge.cli.logs import quiet_libraries
from bridge.local.bridge import BridgeProcess
from bridge.local.door import DoorProcess
from bridge.local.server import Server


class LogWatch:
    """Collects faults of all followed logs."""

    def __init__(self) -> None:
        self._files: dict[Path, BinaryIO] = {}
        self._own: list[Fault] = []

    def follow(self, log: Path) -> None:
        """Reads what is written to the log from now on, also after somebody deletes the file."""
        if log not in self._files:
            log.parent.mkdir(parents=True, exist_ok=True)
            with log.open("ab") as end:
                self._files[log] = log.open("rb")
                self._files[log].seek(end.tell())

    def note(self, _logger: object, method: str, members: structlog.typing.EventDict) -> structlog.typing.EventDict:
        """Notes a line of this process. A processor of structlog."""
        if (event := event_of({"level": method, **members})) is not None:
            self._own.append(Fault(event, f"{method}: {members}"))
        return members

    def noted(self, record: logging.LogRecord) -> None:
        """Notes an error of a standard logger of this process, such as asyncio's. The event is the text without
        values."""
        self._own.append(Fault(str(record.msg).splitlines()[0], f"{record.name}: {record.getMessage()}"))

    def taken(self) -> list[Fault]:
        """The faults since the last call."""
        own, self._own = self._own, []
        return [*own, *(fault for log, file in self._files.items() for fault in self._read(log, file))]

    def close(self) -> None:
        for file in self._files.values():
            file.close()

    def _read(self, log: Path, file: BinaryIO) -> Iterator[Fault]:
        text = file.read().decode(errors="replace")
        return (Fault(fault.event, f"{log}: {fault.line}") for fault in faults(text.splitlines()))


@dataclass(frozen=True, slots=True)
class Expected:
    """Announced faults: how many lines of an event may come."""

    event: str
    at_least: int
    at_most: int

    @classmethod
    def of(cls, mark: pytest.Mark) -> Self:
        """Reads `expects_log(event, count=1)`, or with `at_least` and `at_most` where the count varies."""
        return cls.read(*mark.args, **mark.kwargs)

    @classmethod
    def read(cls, event: str, count: int = 1, *, at_least: int | None = None, at_most: int | None = None) -> Self:
        return cls(event, count if at_least is None else at_least, count if at_most is None else at_most)


def complaints(found: Sequence[Fault], expected: Sequence[Expected]) -> list[str]:
    """What a test's log has and should not have, or should have and has not. Pure."""
    counts = Counter(fault.event for fault in found)
    announced = {one.event: one for one in expected}
    said = [f"unexpected in a log: {fault}" for fault in found if fault.event not in announced]
    for event, one in announced.items():
        if not one.at_least <= counts[event] <= one.at_most:
            said.append(f"{counts[event]} times {event!r} in the logs; {one.at_least} to {one.at_most} are announced")
    return said


@pytest.fixture(scope="session", autouse=True)
def log_watch() -> Iterator[LogWatch]:
    """Follows the logs of this worker's programs until its last test has ended."""
    watch = LogWatch()
    with _launches_followed(watch), _own_lines_noted(watch):
        yield watch
        _judge(watch.taken(), ())
    watch.close()


@pytest.fixture(scope="module", autouse=True)
def judged_module(log_watch: LogWatch, request: pytest.FixtureRequest) -> Iterator[None]:
    """Judges what the servers of a module log as they stop."""
    yield
    _judge(log_watch.taken(), _expected(request.node, at_least=0))


@pytest.fixture(autouse=True)
def judged_test(log_watch: LogWatch, request: pytest.FixtureRequest) -> Iterator[None]:
    """Judges what was logged during a test and as its fixtures ended, and that the lines go where they went before."""
    target = structlog.get_config()["logger_factory"]
    yield
    assert structlog.get_config()["logger_factory"] is target, "the test has set up logging; use tests/command.py"
    _judge(log_watch.taken(), _expected(request.node))


def _expected(node: pytest.Item | pytest.Module, *, at_least: int | None = None) -> list[Expected]:
    marks = [Expected.of(mark) for mark in node.iter_markers("expects_log")]
    return marks if at_least is None else [Expected(one.event, at_least, one.at_most) for one in marks]


def _judge(found: Sequence[Fault], expected: Sequence[Expected]) -> None:
    if said := complaints(found, expected):
        pytest.fail("\n".join(said), pytrace=False)


@contextmanager
def _launches_followed(watch: LogWatch) -> Iterator[None]:
    launch = Server.launch

    def followed(server: Server) -> None:
        if isinstance(server, BridgeProcess | DoorProcess):
            watch.follow(server.log_file)
        launch(server)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Server, "launch", followed)
        yield


@contextmanager
def _own_lines_noted(watch: LogWatch) -> Iterator[None]:
    handler = _Errors(watch.noted)
    quiet_libraries()
    former = structlog.get_config()["processors"]
    structlog.configure(processors=[watch.note, *former])
    logging.getLogger().addHandler(handler)
    try:
        yield
    finally:
        logging.getLogger().removeHandler(handler)
        structlog.configure(processors=former)


class _Errors(logging.Handler):
    def __init__(self, noted: Callable[[logging.LogRecord], None]) -> None:
        super().__init__(logging.ERROR)
        self._noted = noted

    def emit(self, record: logging.LogRecord) -> None:
        self._noted(record)
