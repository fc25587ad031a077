"""Judges what happened to the messages of a run: lost, early, delivered too often. Instants are Unix milliseconds.

`judge` is pure: it turns the events that load and consumers noted in a `tests.history.History` into a `Verdict`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum, auto


class What(StrEnum):
    SENDING = auto()  # a try begins; `due_ms` is the earliest moment the message can be due
    UNANSWERED = auto()  # the try got no answer, and may have been accepted
    ACCEPTED = auto()
    DELETING = auto()
    DELETED = auto()  # the delete was answered 200
    NOT_DELETED = auto()  # the delete was answered otherwise
    FORGOTTEN = auto()  # the bridge does not know the message any more
    PULLED = auto()  # delivered over HTTP; `due_ms` and `attempt` as the delivery says, `asked_ms` when the pull began
    CONSUMED = auto()  # delivered over AMQP
    RETURNED = auto()  # the consumer will nack, reject or leave this delivery; `attempt` is the delivery's
    ACKING = auto()
    ACKED = auto()  # the ack was answered
    DEAD = auto()  # it is among the dead letters


@dataclass(frozen=True, slots=True)
class Event:
    at_ms: int
    message_id: str
    what: What
    due_ms: int = 0
    attempt: int = 0
    asked_ms: int = 0

    def __str__(self) -> str:
        due = f" due {self.due_ms}" if self.due_ms else ""
        return f"{self.at_ms} {self.what}{due}" + (f" attempt {self.attempt}" if self.attempt else "")


DELIVERIES = (What.PULLED, What.CONSUMED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The ids of messages, by what happened to them. `wrong` holds messages that break a promise. Messages in
    `duplicated` came more often than consumers returned them. At-least-once delivery allows that.
    """

    accepted: tuple[str, ...] = ()
    delivered: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    early: tuple[str, ...] = ()
    duplicated: tuple[str, ...] = ()
    deleted_but_delivered: tuple[str, ...] = ()
    over_limit: tuple[str, ...] = ()
    forgotten: tuple[str, ...] = ()
    back_after_ack: tuple[str, ...] = ()

    @property
    def wrong(self) -> Mapping[str, tuple[str, ...]]:
        """The ids of messages that broke a promise, by the promise."""
        names = ("lost", "early", "deleted_but_delivered", "over_limit", "forgotten", "back_after_ack")
        return {name: getattr(self, name) for name in names if getattr(self, name)}

    def counts(self) -> dict[str, int]:
        return {one.name: len(getattr(self, one.name)) for one in fields(self)}


@dataclass(slots=True)
class _Life:
    """Sums up one id's events, which it takes one after the other."""

    not_before_ms: int = 0  # 0 until it is sent
    sends: int = 0
    unanswered: int = 0
    accepted: bool = False
    deletion: What | None = None  # the last event of a delete
    deleted_ms: list[int] = field(default_factory=list)
    dead: bool = False
    deliveries: list[Event] = field(default_factory=list)
    returned: int = 0
    acking: bool = False
    acked_ms: int | None = None
    forgotten: bool = False
    owed: bool = False  # a delivery has to come
    early: bool = False

    def take(self, event: Event, max_retry: int) -> None:
        match event.what:
            case What.SENDING:
                self.sends += 1
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
            case What.ACKED:
                self.acked_ms = event.at_ms
            case What.FORGOTTEN:
                self.forgotten = True
            case What.DEAD:
                self.dead = True

    @property
    def lost(self) -> bool:
        # An ack or a delete without an answer may have ended it.
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
        """Returns whether HTTP delivered the message more often than its retries allow, or a delivery counts too many
        attempts.

        A try without an answer may have been a message that ended before the next try, so each such try allows as many
        deliveries again.
        """
        pulled = sum(one.what is What.PULLED for one in self.deliveries)
        too_often = pulled > (max_retry + 1) * (1 + self.unanswered)
        return too_often or any(one.attempt > max_retry + 1 for one in self.deliveries)

    @property
    def back_after_ack(self) -> bool:
        """Returns whether a pull delivered the message again, although it began after the answer to the message's ack.

        A message that was sent twice may have ended between the two, and then its id was free for a second message.
        """
        acked_ms = self.acked_ms
        return acked_ms is not None and self.sends == 1 and any(one.asked_ms > acked_ms for one in self.deliveries)


def judge(events: Iterable[Event], *, max_retry: int) -> Verdict:
    """Judges each message by its events. Events come in the order in which they were seen."""
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
        forgotten=ids(lambda life: life.forgotten),
        back_after_ack=ids(lambda life: life.back_after_ack),
    )
