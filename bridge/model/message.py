"""Defines a message: its record (in Redis), its envelope (from the producer), its copies (in RabbitMQ).

A record names its one live copy by `epoch` and `nonce`. Any other copy is a ghost, and the bridge drops a ghost when it
appears. This module has values only, so nothing in it blocks.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field
from enum import IntEnum, StrEnum
from hashlib import sha256
from random import getrandbits
from typing import Any, Final

from bridge.model.fast_dataclass import fast_dataclass

TOPIC_PATTERN = r"^[A-Za-z0-9_.-]{1,100}(/[A-Za-z0-9_.-]{1,100})?$"
NEW_ID_PATTERN = r"^[ -.0-~]{1,200}(~dead[0-9]{1,15})?$"  # printable ASCII without "/"; for the suffix see `aside_id`
ID_PATTERN = r"^[ -.0-~]{1,200}(~(dead|born)[0-9]{1,15}){0,2}$"
"""The pattern of every id, also of those that `aside_id` and `own_life_id` make."""

_TOPIC = re.compile(TOPIC_PATTERN[:-1] + r"\Z")
_NEW_ID = re.compile(NEW_ID_PATTERN[:-1] + r"\Z")
_ID = re.compile(ID_PATTERN[:-1] + r"\Z")
_ASIDE = re.compile(r"(~(dead|born)[0-9]{1,15})+\Z")
JSON_TYPE = "application/json"
LONGEST_NAME: Final = 255
"""The most bytes of an exchange's name, and of a routing key: RabbitMQ's limit, which is the longest short text of
AMQP."""


def valid_topic(topic: str) -> bool:
    return _TOPIC.match(topic) is not None


def valid_id(message_id: str) -> bool:
    """Whether a message or a dead letter can have this id."""
    return _ID.match(message_id) is not None


def is_path_step(name: str) -> bool:
    """Whether the name, or a part of it between slashes, is `.` or `..`.

    HTTP clients and proxies resolve such a part as a step in a path, and ask for another path. So new names must not
    have such parts.
    """
    return "." in name and any(part in (".", "..") for part in name.split("/"))


def may_be_sent(message_id: str) -> bool:
    """Whether a client can send a message under this id."""
    return _NEW_ID.match(message_id) is not None


def id_of(name: str) -> str:
    """Returns the message id for a name that a client chose: the name itself, or `job-` and a digest of the name if the
    name can't be an id."""
    return name if valid_id(name) and not is_path_step(name) else f"job-{digest_of_name(name)}"


def digest_of_name(name: str) -> str:
    """Returns a substitute for a name that the bridge does not allow: 32 hexadecimal digits of the name's SHA-256."""
    return sha256(name.encode(errors="surrogateescape")).hexdigest()[:32]


def aside_id(message_id: str, nonce: int) -> str:
    """Returns the new id of a dead letter whose id a new message has taken. `nonce`: the nonce of the dead letter's
    copy."""
    return f"{message_id}~dead{nonce}"


def own_life_id(message_id: str, created_ms: int) -> str:
    """Returns the new id of a message whose id another message has taken, because Redis had lost the record of the
    first message.

    `created_ms`: when the first message, which gets the new id, was created, in Unix ms.
    """
    return f"{message_id}~born{created_ms}"


def taken_id(message_id: str) -> str:
    """Returns a message's original id: the id without the suffixes of `aside_id` and `own_life_id`."""
    return _ASIDE.sub("", message_id)


UNSET: Final = -1
"""Stands for the number of retries of a message until its topic's policy is applied (`successors.completed`)."""


class State(IntEnum):
    """The state of a message. The camellia wire shows clients these codes. No answer ever shows `UNCONFIRMED`."""

    UNCONFIRMED = 0
    WAITING = 1
    READY = 2
    LEASED = 3
    ACKED = 4
    EXPIRED = 5
    DEAD = 6
    DELETED = 7

    @property
    def ended(self) -> bool:
        return self >= State.ACKED

    @property
    def label(self) -> str:
        return self.name.lower()


class CopyKind(StrEnum):
    """Why a copy was published. The routing key of every copy but a `PLAIN` one names the kind, as in `!lease.orders`.
    Such a copy goes to the checkpoint even if its topic has direct release."""

    PLAIN = "plain"  # of a send to a direct topic, or of an AMQP client
    CHECKED = "checked"  # of a send to a checked topic: it is aimed short of due; or asked about again
    LEASE = "lease"  # comes due when the lease ends
    RETRY = "retry"  # after a failed delivery, or after its predecessor was lost
    MOVE = "move"  # to another due moment, or of the message that replaced the one before
    HOLD = "hold"  # came out of the wheel, or was pulled, too early; or can't be published yet


SHOWN_STATES = tuple(state for state in State if state is not State.UNCONFIRMED)


def new_nonce() -> int:
    """Returns a random number that tells two copies of the same epoch apart: 48 bits, so exact in Lua and JSON."""
    return getrandbits(48) or 1


@fast_dataclass(frozen=True, slots=True)
class Target:
    """The exchange of another application to which a due message goes, in place of its topic's ready queue."""

    exchange: str
    routing_key: str


@fast_dataclass(frozen=True, kw_only=True, slots=True)
class Envelope:
    """The content of a message. These bytes and headers reach the consumer unchanged.

    `properties`: further AMQP properties that an AMQP client set. `target` None: the message goes to the topic's ready
    queue. `written`: the AMQP bytes, type included, of those headers whose Python value does not show the AMQP type
    that the client chose; by the header's name. Redis does not keep `written`. `body_digest`: the digest of a body that
    Redis did not keep, to compare it with the body of a repeated send. It is empty if Redis keeps the body, or if
    nobody may send the id again.
    """

    content_type: str = JSON_TYPE  # empty: an AMQP client set none
    headers: Mapping[str, Any] = field(default_factory=dict)
    body: bytes | None = None  # None: not kept
    properties: Mapping[str, Any] = field(default_factory=dict)
    written: Mapping[str, bytes] = field(default_factory=dict)
    target: Target | None = None
    body_digest: str = ""


@fast_dataclass(frozen=True, slots=True)
class Record:
    """The record of one message in Redis. Instants are Unix milliseconds by the clock of Redis; 0 means none.

    From `state` to `reason`, the fields have the order of `store/lua/_record.lua`.
    """

    topic: str
    id: str
    state: State
    epoch: int
    nonce: int
    created_ms: int
    due_ms: int
    expires_ms: int
    attempts: int  # deliveries made so far
    max_retry: int
    arrives_ms: int  # when the live copy reaches the checkpoint
    last_ms: int  # the latest due moment of all copies ever published
    lease_until_ms: int
    ended_ms: int
    forget_ms: int  # when Redis expires the record
    reason: str
    labels: str  # as `labels.packed` writes them

    @property
    def is_dead_letter(self) -> bool:
        """Whether the message is in its dead-letter queue. It is not if its time to live has passed."""
        return self.state is State.DEAD and not self.forget_ms

    @property
    def version(self) -> str:
        """A text that changes whenever an answer about the message changes. `as_seen` in `store/lua/_record.lua` writes
        the same text. The text leaves out the content: each change of the content also changes epoch and nonce."""
        return (
            f"{self.lease_until_ms} {self.ended_ms} {self.state:d} {self.epoch} {self.nonce} {self.created_ms} "
            f"{self.due_ms} {self.expires_ms} {self.attempts} {self.max_retry} {self.reason}\n{self.labels}"
        )


@fast_dataclass(frozen=True, kw_only=True, slots=True)
class Message:
    record: Record
    envelope: Envelope | None


@fast_dataclass(frozen=True, kw_only=True, slots=True)
class Copy:
    """One copy of a message in RabbitMQ. Its headers hold all that a delivery needs."""

    topic: str
    id: str
    epoch: int  # 0: published by an AMQP client, with no record
    nonce: int
    attempt: int  # the number of the delivery that this copy makes, from 1
    max_retry: int  # `UNSET`: an AMQP client set none, and there is no record yet
    due_ms: int
    expires_ms: int  # 0: never
    created_ms: int
    envelope: Envelope
    asked: int = 0  # how often its record was found to be older than this copy
