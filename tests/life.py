"""Sums up the events of one message, and tells which promises they break."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from tests.events import Event, What

RETENTION_MS: Final = 3_600_000
"""How long Redis keeps the record of an ended message by default. A step of its clock this far ahead removes it."""


@dataclass(slots=True)
class Life:
    """Sums up one id's events, which it takes one after the other."""

    earliest_ms: int = 0  # the earliest due moment of all tries and moves; 0 until it is sent
    not_before_ms: int = 0  # the due moment, or the earliest one that it may have
    moving_to_ms: int | None = None  # of a move without an answer
    unchecked: bool = False
    sends: int = 0
    beside: int = 0
    accepted: bool = False
    deletion: What | None = None  # the last event of a delete
    deleted_ms: list[int] = field(default_factory=list)
    dead: bool = False
    replays: int = 0
    before_replay: int = 0  # deliveries
    deliveries: list[Event] = field(default_factory=list)
    returned: int = 0
    acking: bool = False
    acked_ms: int | None = None
    forgotten: bool = False
    owed: bool = False  # a delivery has to come
    early: bool = False
    slack_ms: int = 0
    placed_slack_ms: int = 0  # `slack_ms` when it last entered the wheel
    moved_later: bool = False  # by the last move, whose moment is of a clock that may have been set since
    forgetful: bool = False  # Redis may forget its latest changes, as after a failover, or was emptied
    during_pause: bool = False
    leased_until_ms: int = 0  # by a consumer that has not settled the message
    lease_cut: bool = False  # a delivery came before the end of a lease

    def take(self, event: Event, max_retry: int, slack_ms: int = 0) -> None:
        """Takes the next event. `slack_ms`: how far the clock of Redis has been set during this life."""
        self.slack_ms = max(self.slack_ms, slack_ms)
        if event.what in (What.ACCEPTED, What.MOVED):
            self.placed_slack_ms = self.slack_ms
        match event.what:
            case What.SENDING | What.UNANSWERED | What.BESIDE | What.UNCHECKED | What.ACCEPTED:
                self._send(event)
            case What.MOVING | What.MOVED | What.NOT_MOVED:
                self._move(event)
            case What.DELETING | What.DELETED | What.NOT_DELETED:
                self.deletion = event.what
                if event.what is What.DELETED:
                    self.deleted_ms.append(event.at_ms)
            case What.DEAD | What.REPLAYING | What.REPLAYED:
                self._replay(event)
            case What.FORGOTTEN:
                self.forgotten = self.slack_ms < RETENTION_MS
            case _:
                self._deliver(event, max_retry)

    def _send(self, event: Event) -> None:
        match event.what:
            case What.SENDING:
                self.sends += 1
                self.earliest_ms = min(self.earliest_ms or event.due_ms, event.due_ms)
                self.not_before_ms = min(self.not_before_ms or event.due_ms, event.due_ms)
            case What.UNANSWERED:
                pass  # its message may come, and is not owed
            case What.BESIDE:
                self.beside += 1
            case What.UNCHECKED:
                self.unchecked = True
            case _:
                self.accepted = True
                self.owed = not self.deliveries

    def _move(self, event: Event) -> None:
        match event.what:
            case What.MOVING:
                self.leased_until_ms = 0
                if self.moving_to_ms is not None:  # the move before may have taken effect
                    self.not_before_ms = min(self.not_before_ms, self.moving_to_ms)
                self.moving_to_ms = event.due_ms
                self.earliest_ms = min(self.earliest_ms, event.due_ms)
            case What.MOVED:
                self.moved_later = event.due_ms > self.not_before_ms
                self.not_before_ms, self.moving_to_ms = event.due_ms, None
            case _:
                self.moving_to_ms = None

    def _deliver(self, event: Event, max_retry: int) -> None:
        match event.what:
            case What.RETURNED:
                self.returned += 1
                self.owed = event.attempt <= max_retry
            case What.LEASED:
                self.leased_until_ms = event.due_ms
            case What.ACKING:
                self.acking, self.leased_until_ms = True, 0
            case What.ACKED | What.DROPPED:
                self.acked_ms = event.at_ms
            case What.IN_PAUSE:
                self.during_pause = True
            case _:
                self.deliveries.append(event)
                self.lease_cut |= event.at_ms + self.slack_ms < self.leased_until_ms
                self.early |= event.at_ms + self.slack_ms < max(event.due_ms, self._not_before_ms(event))
                self.owed = False

    def _replay(self, event: Event) -> None:
        match event.what:
            case What.DEAD:
                self.dead = True
            case What.REPLAYING:
                self.replays += 1
                self.before_replay = len(self.deliveries)
            case _:
                self.dead = False
                self.owed = len(self.deliveries) == self.before_replay

    def _not_before_ms(self, delivery: Event) -> int:
        """The earliest moment of a delivery. AMQP consumers get unchecked messages at any moment that was asked for."""
        if self.forgetful or (self.unchecked and delivery.what is What.CONSUMED):
            return self.earliest_ms
        if self.moving_to_ms is not None:
            return min(self.not_before_ms, self.moving_to_ms)
        return self.not_before_ms

    def lost(self, now_ms: int) -> bool:
        """Returns whether a delivery has to come, and no clock explains its delay.

        On direct release, and where Redis was emptied, it may be late by as much as the clock of Redis was wrong when
        it entered the wheel. After a move to later it may come at the moment that the move answered, by a clock that
        was ahead.
        """
        # An ack or a delete without an answer may have ended it.
        ended = self.acking or self.dead or self.deletion in (What.DELETING, What.DELETED)
        alone = self.unchecked or self.forgetful
        late = (alone or self.moved_later) and now_ms < self.not_before_ms + (self.placed_slack_ms if alone else 0)
        return self.accepted and self.owed and not ended and not late

    @property
    def duplicated(self) -> bool:
        return len(self.deliveries) > 1 + self.returned

    @property
    def deleted_but_delivered(self) -> bool:
        return any(
            one.at_ms >= deleted_ms and max(one.due_ms, self._not_before_ms(one)) > deleted_ms + self.slack_ms
            for deleted_ms in self.deleted_ms
            for one in self.deliveries
            if not (self.unchecked and one.what is What.CONSUMED)
        )

    def over_limit(self, max_retry: int) -> bool:
        """Returns whether HTTP delivered a message more often than its retries allow, or a delivery counts too many
        attempts.

        A try without success may have made a message that ended before the next try made another one: guarantee 1. The
        moment of creation tells the two apart. A replay allows as many deliveries again, and so does an AMQP client's
        further message of the id: it goes on with the record of the one before.
        """
        pulled = Counter(one.created_ms for one in self.deliveries if one.what is What.PULLED)
        too_often = max(pulled.values(), default=0) > (max_retry + 1) * (1 + self.beside + self.replays)
        return too_often or any(one.attempt > max_retry + 1 for one in self.deliveries)

    @property
    def back_after_ack(self) -> bool:
        """Returns whether a pull delivered the message again, although it began after the answer to the message's ack,
        or to the drop of the dead letter.

        A message that was sent twice may have ended between the two, and then its id was free for a second message. If
        the clock of Redis went ahead by the retention, Redis has forgotten the ack.
        """
        acked_ms = self.acked_ms
        if acked_ms is None or self.sends > 1 or self.slack_ms >= RETENTION_MS:
            return False
        return any(one.asked_ms > acked_ms for one in self.deliveries)
