"""Defines the events of a run, which load and consumers note in a `tests.history.History`. Instants are Unix
milliseconds."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum, auto


class What(StrEnum):
    CLOCK = auto()  # of no message: from now on the clock of Redis is `due_ms` ahead of ours, or behind if negative
    EMPTIED = auto()  # of no message: Redis has lost all its keys
    SENDING = auto()  # a try begins; `due_ms` is the earliest moment the message can be due
    UNANSWERED = auto()  # the try got no answer, and may have been accepted
    ACCEPTED = auto()
    BESIDE = auto()  # an AMQP client has sent a further message of the id, or may have: one or two messages come
    UNCHECKED = auto()  # its topic may be on direct release during a try: AMQP consumers may get it though deleted
    MOVING = auto()  # `due_ms` is the earliest moment the message can be due after the move
    MOVED = auto()  # the move was answered 200; `due_ms` as the answer says
    NOT_MOVED = auto()  # the move was refused, and has not taken effect
    DELETING = auto()
    DELETED = auto()  # the delete was answered 200
    NOT_DELETED = auto()  # the delete was answered otherwise
    FORGOTTEN = auto()  # the bridge does not know the message any more
    PULLED = auto()  # delivered over HTTP; `asked_ms`: when the pull began; the rest as the delivery says
    CONSUMED = auto()  # delivered over AMQP
    LEASED = auto()  # nobody may get the message before `due_ms`, unless its consumer settles it
    RETURNED = auto()  # the consumer will nack, reject or leave this delivery; `attempt` is the delivery's
    ACKING = auto()
    ACKED = auto()  # the ack was answered
    IN_PAUSE = auto()  # the pull of the delivery before began and ended in a pause of the topic
    DROPPED = auto()  # the dead letter was deleted, which was answered 200
    DEAD = auto()  # it is among the dead letters
    REPLAYING = auto()
    REPLAYED = auto()  # the replay was answered 200


@dataclass(frozen=True, slots=True)
class Event:
    at_ms: int
    message_id: str
    what: What
    due_ms: int = 0
    attempt: int = 0
    asked_ms: int = 0
    created_ms: int = 0

    def __str__(self) -> str:
        due = f" due {self.due_ms}" if self.due_ms else ""
        return f"{self.at_ms} {self.what}{due}" + (f" attempt {self.attempt}" if self.attempt else "")


DELIVERIES = (What.PULLED, What.CONSUMED)
