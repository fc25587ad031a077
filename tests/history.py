"""Judges what happened to the messages of a run: lost, early, delivered too often. Instants are Unix milliseconds.

Load and consumers note events in a `History`. `judge` is pure: it turns events into a `Verdict`.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields
from enum import StrEnum, auto
from time import time

from tests.waiting import pause


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
_LOOK_S = 0.5  # a verdict on a long run takes tens of milliseconds of CPU


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


class History:
    """Keeps the events of a run, in the order they were seen in. `max_retry` is the setting of the bridges."""

    def __init__(self, max_retry: int) -> None:
        self.max_retry = max_retry
        self.events: list[Event] = []
        self.last_due_ms = 0
        self.delivery_count = 0
        self.accepted_count = 0

    def note(self, message_id: str, what: What, *, due_ms: int = 0, attempt: int = 0, asked_ms: int = 0) -> None:
        """Adds an event that was seen just now."""
        self.events.append(Event(now_ms(), message_id, what, due_ms, attempt, asked_ms))
        self.delivery_count += what in DELIVERIES
        self.accepted_count += what is What.ACCEPTED
        if what is What.SENDING:
            self.last_due_ms = max(self.last_due_ms, due_ms)

    def of(self, message_id: str) -> list[Event]:
        """The events of one message."""
        return [event for event in self.events if event.message_id == message_id]

    def counts(self, what: What) -> Counter[str]:
        """How many events of this kind each message has."""
        return Counter(event.message_id for event in self.events if event.what is what)

    def verdict(self) -> Verdict:
        """Judges the events so far."""
        return judge(self.events, max_retry=self.max_retry)

    async def more_accepted(self, count: int, *, within_s: float) -> None:
        """Waits until `count` more sends are accepted. Raises TimeoutError after `within_s`."""
        until = self.accepted_count + count
        async with asyncio.timeout(within_s):
            while self.accepted_count < until:
                await pause()

    async def nothing_lost(self, *, within_s: float) -> None:
        """Waits until no accepted message is missing, `within_s` at most. The verdict names the missing ones."""
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                while self.verdict().lost:
                    await pause(_LOOK_S)


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


def now_ms() -> int:
    """The wall clock. Redis on the same machine has the same."""
    return int(time() * 1_000)
