"""A message as the bridge knows it: its record (Redis), its envelope (what the producer gave), its copies (RabbitMQ).

A record names its one live copy by `epoch` and `nonce`. Any other copy is a ghost and evaporates where it is next
seen. Values only: nothing here can block.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field
from enum import IntEnum, StrEnum
from random import getrandbits
from typing import Any

from bridge.model.fast_dataclass import fast_dataclass

TOPIC_PATTERN = r"^[A-Za-z0-9_.-]{1,100}(/[A-Za-z0-9_.-]{1,100})?$"
ID_PATTERN = r"^[ -.0-~]{1,200}$"  # printable ASCII without "/"
_TOPIC = re.compile(TOPIC_PATTERN[:-1] + r"\Z")
_ID = re.compile(ID_PATTERN[:-1] + r"\Z")
JSON_TYPE = "application/json"


def valid_topic(topic: str) -> bool:
    return _TOPIC.match(topic) is not None


def valid_id(message_id: str) -> bool:
    return _ID.match(message_id) is not None


class State(IntEnum):
    """Where a message stands. The codes are those of the camellia wire; 0 is never shown to anyone."""

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
    """Why a copy is on its way. A copy of any kind but `PLAIN` says it in its key, `!lease.orders`, and goes to the
    checkpoint also in a topic with direct release."""

    PLAIN = "plain"  # of a send, or of an AMQP client
    LEASE = "lease"  # comes due when the lease ends
    RETRY = "retry"  # after a failed delivery, or after its predecessor was lost
    MOVE = "move"  # to another due moment, or of the message that replaced the one before
    HOLD = "hold"  # came out of the wheel, or was pulled, too early


SHOWN_STATES = tuple(state for state in State if state is not State.UNCONFIRMED)


def new_nonce() -> int:
    """Tells apart two copies published for the same epoch; 48 bits, so exact in Lua's and JSON's numbers."""
    return getrandbits(48) or 1


@fast_dataclass(frozen=True, kw_only=True, slots=True)
class Envelope:
    """What the producer handed over: exactly these bytes and headers reach the consumer."""

    content_type: str = JSON_TYPE
    headers: Mapping[str, Any] = field(default_factory=dict)
    body: bytes | None = None  # None: not kept
    properties: Mapping[str, Any] = field(default_factory=dict)  # other AMQP properties, where an AMQP client set them


@fast_dataclass(frozen=True, slots=True)
class Record:
    """What Redis knows of one message. Instants are Unix milliseconds by the store's clock; 0 means none.

    From `state` on the fields stand in the order of `store/lua/_record.lua`.
    """

    topic: str
    id: str
    state: State
    epoch: int
    nonce: int
    created_ms: int
    due_ms: int
    expires_ms: int
    attempts: int  # deliveries handed out so far
    max_retry: int
    arrives_ms: int  # when the live copy reaches the checkpoint
    last_ms: int  # the latest moment any copy ever published comes due
    lease_until_ms: int
    ended_ms: int
    forget_ms: int  # when the record itself goes
    reason: str


@fast_dataclass(frozen=True, kw_only=True, slots=True)
class Message:
    record: Record
    envelope: Envelope | None


@fast_dataclass(frozen=True, kw_only=True, slots=True)
class Copy:
    """One copy of a message on the broker. All that delivery needs travels in its headers."""

    topic: str
    id: str
    epoch: int  # 0: published by an AMQP client, with no record
    nonce: int
    attempt: int  # the number of the delivery this copy will make, from 1
    max_retry: int
    due_ms: int
    expires_ms: int  # 0: never
    created_ms: int
    envelope: Envelope
    asked: int = 0  # how often the checkpoint found no record as new as this copy
