"""Defines an action on all messages that a filter matches, and the operation that carries out a large one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, NamedTuple

from bridge.model.filter import Filter, of_json, to_json
from bridge.model.message import Record, State
from bridge.model.reach import Reach

MOST_FAILURES: Final = 10
"""The most failures that an answer lists. The answer's number of failures includes the others."""


class BulkAction(StrEnum):
    DELETE = "delete"
    MOVE = "move"
    RUN_NOW = "run-now"
    REPLAY = "replay"

    @property
    def takes(self) -> tuple[State, ...]:
        """The states of the messages that the action can change."""
        return _TAKES[self]


_TAKES: Final[Mapping[BulkAction, tuple[State, ...]]] = {
    BulkAction.DELETE: (State.WAITING, State.READY, State.LEASED, State.DEAD),
    BulkAction.MOVE: (State.WAITING,),
    BulkAction.RUN_NOW: (State.WAITING,),
    BulkAction.REPLAY: (State.DEAD,),
}


class Target(NamedTuple):
    """A message that an action has found and is to change. The fields are as they were found; the message may have
    changed since."""

    topic: str
    id: str
    created_ms: int
    epoch: int
    state: State


class Failure(NamedTuple):
    """Why an action could not change a message."""

    topic: str
    id: str
    detail: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Bulk:
    """A request to change all messages that a filter matches. Moments are Unix milliseconds.

    `filter`: it names only states that the action can change. `reach`: the topics that the caller may use. `began_ms`:
    when the request began; a message that was created later does not match. `due_ms`: the new due moment, for `move`
    and `run-now`. `most`: change only the first `most` messages, by due moment; None: all.
    """

    action: BulkAction
    filter: Filter
    reach: Reach
    began_ms: int
    due_ms: int = 0
    most: int | None = None

    def takes(self, record: Record, now_ms: int) -> bool:
        """Whether the record's message still matches the request. Callers have checked its topic, id and labels.
        `now_ms`: the time by Redis' clock.

        A message that the action has already moved does not match. So a move does not find its own messages again.
        """
        wanted = self.filter
        return (
            record.state in wanted.states
            and (record.state is not State.DEAD or record.is_dead_letter)
            and record.created_ms <= self.began_ms
            and (wanted.due_after_ms is None or record.due_ms > wanted.due_after_ms)
            and (wanted.due_before_ms is None or record.due_ms < wanted.due_before_ms)
            and wanted.takes_reason(record.reason)
            and not self.has_moved(record, now_ms)
        )

    def has_moved(self, record: Record, now_ms: int) -> bool:
        """Whether the action has moved the message: the message is due at the moment that the action sets. `now_ms`:
        the time by Redis' clock.

        If `due_ms` was past at the move, the message became due at the moment of the move. So any due moment from
        `due_ms` to `now_ms` counts.
        """
        moves = self.action in (BulkAction.MOVE, BulkAction.RUN_NOW)
        return moves and self.due_ms <= record.due_ms <= max(self.due_ms, now_ms)

    def to_json(self) -> dict[str, Any]:
        return {
            "action": self.action,
            "filter": to_json(self.filter),
            "reach": self.reach.to_json(),
            "began_ms": self.began_ms,
            "due_ms": self.due_ms,
            "most": self.most,
        }

    @classmethod
    def of_json(cls, parts: Mapping[str, Any]) -> Bulk:
        """Reads the value that `to_json` returned."""
        return cls(
            action=BulkAction(parts["action"]),
            filter=of_json(parts["filter"]),
            reach=Reach.of_json(parts["reach"]),
            began_ms=parts["began_ms"],
            due_ms=parts["due_ms"],
            most=parts["most"],
        )


@dataclass(frozen=True, slots=True)
class Progress:
    """How many messages an action has changed, and how many it could not change. `failures`: the first `MOST_FAILURES`
    failures, each with the reason."""

    done: int = 0
    failed: int = 0
    failures: tuple[Failure, ...] = ()

    @classmethod
    def of(cls, results: Iterable[Failure | None]) -> Progress:
        """Returns the counts of results. A result is a failure, or None for a message that was changed."""
        results = list(results)
        failures = [result for result in results if result is not None]
        return cls(len(results) - len(failures), len(failures), tuple(failures[:MOST_FAILURES]))

    def __add__(self, other: Progress) -> Progress:
        failures = (self.failures + other.failures)[:MOST_FAILURES]
        return Progress(self.done + other.done, self.failed + other.failed, failures)

    @property
    def taken(self) -> int:
        return self.done + self.failed

    def to_json(self) -> dict[str, int | list[list[str]]]:
        return {"done": self.done, "failed": self.failed, "failures": [[*failure] for failure in self.failures]}

    @classmethod
    def of_json(cls, parts: Mapping[str, Any]) -> Progress:
        """Reads the value that `to_json` returned; {} counts nothing."""
        failures: Sequence[Sequence[str]] = parts.get("failures", ())
        return cls(parts.get("done", 0), parts.get("failed", 0), tuple(Failure(*failure) for failure in failures))


class OperationState(StrEnum):
    RUNNING = "running"
    DONE = "done"
    CANCELLED = "cancelled"
    FAILED = "failed"


@dataclass(frozen=True, kw_only=True, slots=True)
class BulkOperation:
    """An action on so many messages that a process works on it in the background. `who`: the id of the token that began
    it, or a word for a caller without a token. `matched`: how many messages matched when the operation began.
    `progress`: the counts so far. `created_ms`, `ended_ms`: when it began and ended, in Unix ms; `ended_ms` is 0 while
    the operation runs. `reason`: why the operation failed, else empty."""

    id: str
    bulk: Bulk
    who: str
    state: OperationState
    matched: int
    progress: Progress
    created_ms: int
    ended_ms: int
    reason: str


@dataclass(frozen=True, slots=True)
class OperationPage:
    """Operations, the newest first. `next_cursor`: None on the last page."""

    items: list[BulkOperation]
    next_cursor: str | None
