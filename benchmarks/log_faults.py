"""Finds the lines of a log that tell of a fault: errors, failed loops, tracebacks, and answers of 5xx. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import orjson

TRACEBACK: Final = "traceback"
"""The event of a traceback that Python itself has printed."""

_LEVELS: Final = ("error", "critical")
_PRINTED: Final = (
    "Traceback (most recent call last)",
    "Exception ignored in",
    "Exception in thread",
    "Fatal Python error",
)
_FOR_A_TERMINAL: Final = re.compile(r"\[(?:error|critical) *\] (?P<event>.*?)(?: {2}|$)")
_COLOURS: Final = re.compile(r"\x1b\[[0-9;]*m")
_SERVER_ERROR: Final = 500
_SHOWN: Final = 4_000  # characters of a line


@dataclass(frozen=True, slots=True)
class Fault:
    """One such line. `event`: its event, `http.<status>` for an answer, or `TRACEBACK`."""

    event: str
    line: str

    def __str__(self) -> str:
        return self.line.replace("\\n", "\n")[:_SHOWN]


def faults(lines: Iterable[str]) -> Iterator[Fault]:
    """Finds the faults in a log of `delaybridge`, in JSON or for a terminal."""
    for line in lines:
        if (event := _event(line)) is not None:
            yield Fault(event, line)


def faults_in(log: Path) -> list[Fault]:
    """Finds the faults in a file; none in a file that is not there."""
    return [*faults(log.read_text(errors="replace").splitlines())] if log.exists() else []


def event_of(members: dict[str, Any]) -> str | None:
    """The event of a line's members, if the line tells of a fault."""
    event = str(members.get("event", "")).strip()
    if event == "http.request":
        status, path = members["status"], members["path"]
        # A bridge that starts is not ready, and says so.
        return f"http.{status}" if status >= _SERVER_ERROR and path != "/health/ready" else None
    if event.startswith(_PRINTED):  # uvicorn logs why a start failed so
        return TRACEBACK
    at_fault = members.get("level") in _LEVELS or event == "loop.failed" or members.get("exc_info")
    return event if at_fault or "exception" in members else None


def _event(line: str) -> str | None:
    if line.startswith("{"):
        try:
            return event_of(orjson.loads(line))
        except orjson.JSONDecodeError:  # a killed process wrote half of it
            return None
    if line.startswith(_PRINTED):
        return TRACEBACK
    found = _FOR_A_TERMINAL.search(_COLOURS.sub("", line))
    return found["event"] if found else None
