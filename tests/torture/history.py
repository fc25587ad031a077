"""What was seen of every message of a run, and the judgement on it. Instants are Unix milliseconds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum, auto
from time import time


class What(StrEnum):
    SENDING = auto()  # a try begins; `due_ms` is the earliest moment the message can be due
    UNANSWERED = auto()  # the try got no answer, and may have been accepted
    ACCEPTED = auto()
    DELETING = auto()
    DELETED = auto()  # answered 200
    NOT_DELETED = auto()  # answered otherwise
    PULLED = auto()  # delivered over HTTP; `due_ms` and `attempt` as the delivery says
    CONSUMED = auto()  # delivered over AMQP
    RETURNED = auto()  # this delivery will be nacked, rejected or left alone; `attempt` is the delivery's
    ACKING = auto()
    DEAD = auto()  # it stands among the dead letters


@dataclass(frozen=True, slots=True)
class Event:
    at_ms: int
    message_id: str
    what: What
    due_ms: int = 0
    attempt: int = 0

    def __str__(self) -> str:
        due = f" due {self.due_ms}" if self.due_ms else ""
        return f"{self.at_ms} {self.what}{due}" + (f" attempt {self.attempt}" if self.attempt else "")


DELIVERIES = (What.PULLED, What.CONSUMED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The ids of which each holds. What is `wrong` must be empty.

    `duplicated` are those that came more often than they were given back; that is at-least-once, and no mistake.
    """

    accepted: tuple[str, ...] = ()
    delivered: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    early: tuple[str, ...] = ()
    duplicated: tuple[str, ...] = ()
    deleted_but_delivered: tuple[str, ...] = ()
    over_limit: tuple[str, ...] = ()

    @property
    def wrong(self) -> Mapping[str, tuple[str, ...]]:
        """What must not be, by name."""
        names = ("lost", "early", "deleted_but_delivered", "over_limit")
        return {name: getattr(self, name) for name in names if getattr(self, name)}

    def counts(self) -> dict[str, int]:
        return {one.name: len(getattr(self, one.name)) for one in fields(self)}


class History:
    """The events of a run, in the order they were seen in."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.last_due_ms = 0
        self.delivery_count = 0

    def note(self, message_id: str, what: What, *, due_ms: int = 0, attempt: int = 0) -> None:
        self.events.append(Event(now_ms(), message_id, what, due_ms, attempt))
        self.delivery_count += what in DELIVERIES
        if what is What.SENDING:
            self.last_due_ms = max(self.last_due_ms, due_ms)

    def of(self, message_id: str) -> list[Event]:
        return [event for event in self.events if event.message_id == message_id]


@dataclass(slots=True)
class _Life:
    """One id's events, taken in one after the other."""

    not_before_ms: int = 0  # 0 until it is sent
    unanswered: int = 0
    accepted: bool = False
    deletion: What | None = None  # the last that is known of one
    deleted_ms: list[int] = field(default_factory=list)
    dead: bool = False
    deliveries: list[Event] = field(default_factory=list)
    returned: int = 0
    acking: bool = False
    owed: bool = False  # a delivery has to come
    early: bool = False

    def take(self, event: Event, max_retry: int) -> None:
        match event.what:
            case What.SENDING:
                self.not_before_ms = min(self.not_before_ms or event.due_ms, event.due_ms)
            case What.UNANSWERED:
                self.unanswered += 1
            case What.ACCEPTED:
                self.accepted = True
                self.owed = not self.deliveries
            case What.DELETING | What.NOT_DELETED:
                self.deletion = event.what
            case What.DELETED:
                self.deletion = event.what
                self.deleted_ms.append(event.at_ms)
            case What.PULLED | What.CONSUMED:
                self.deliveries.append(event)
                self.early |= event.at_ms < max(event.due_ms, self.not_before_ms)
                self.owed = False
            case What.RETURNED:
                self.returned += 1
                self.owed = event.attempt <= max_retry
            case What.ACKING:
                self.acking = True
            case What.DEAD:
                self.dead = True

    @property
    def lost(self) -> bool:
        # An ack or a delete that nobody answered may have ended it.
        ended = self.acking or self.dead or self.deletion in (What.DELETING, What.DELETED)
        return self.accepted and self.owed and not ended

    @property
    def duplicated(self) -> bool:
        return len(self.deliveries) > 1 + self.returned

    @property
    def deleted_but_delivered(self) -> bool:
        return any(
            one.at_ms >= deleted_ms and max(one.due_ms, self.not_before_ms) > deleted_ms
            for deleted_ms in self.deleted_ms
            for one in self.deliveries
        )

    def over_limit(self, max_retry: int) -> bool:
        """A try that nobody answered may have been a message of its own, which had ended when the next was accepted."""
        pulled = sum(one.what is What.PULLED for one in self.deliveries)
        return pulled > (max_retry + 1) * (1 + self.unanswered)


def judge(events: Iterable[Event], *, max_retry: int) -> Verdict:
    """What became of the messages. Events are given in the order they were seen in."""
    lives: dict[str, _Life] = {}
    for event in events:
        lives.setdefault(event.message_id, _Life()).take(event, max_retry)

    def ids(holds: Callable[[_Life], bool]) -> tuple[str, ...]:
        return tuple(sorted(one for one, life in lives.items() if holds(life)))

    return Verdict(
        accepted=ids(lambda life: life.accepted),
        delivered=ids(lambda life: bool(life.deliveries)),
        duplicated=ids(lambda life: life.duplicated),
        lost=ids(lambda life: life.lost),
        early=ids(lambda life: life.early),
        deleted_but_delivered=ids(lambda life: life.deleted_but_delivered),
        over_limit=ids(lambda life: life.over_limit(max_retry)),
    )


def now_ms() -> int:
    """The wall clock, which is also Redis' on one machine."""
    return int(time() * 1_000)
