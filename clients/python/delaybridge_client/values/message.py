"""Defines messages: new ones, stored ones and pulled ones, with the results of sends and acks."""

from __future__ import annotations

import base64
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Literal, Self

from delaybridge_client import decode
from delaybridge_client.encode import Verbatim, given
from delaybridge_client.errors import Problem, problem_of

State = Literal["waiting", "ready", "leased", "acked", "expired", "dead", "deleted"]
IfExists = Literal["keep", "replace", "extend", "error"]
AckVerdict = Literal["acked", "stale", "not_leased", "unknown"]
Settled = Literal["acked", "nacked", "stale", "unknown"]


@dataclass(frozen=True, slots=True)
class Target:
    """An exchange of another application, and a routing key."""

    exchange: str
    routing_key: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A message that the bridge has, with its state.

    `body`: the JSON value; text for a text content type; bytes for all else. It is None if `body_kept` is false: then
    Redis did not keep it. `to`: where the message goes when it is due; None: to the topic's ready queue. `attempts`:
    deliveries so far. `etag`: for `if_match`; it differs after each change of the message, and is None in lists, pulls
    and answers to sends.
    """

    topic: str
    id: str
    state: State
    body: Any
    body_kept: bool
    content_type: str
    headers: Mapping[str, Any]
    labels: Mapping[str, str] = field(default_factory=dict)
    to: Target | None = None
    created_at: datetime
    due_at: datetime
    expires_at: datetime | None
    attempts: int
    max_retry: int
    lease_until: datetime | None
    ended_at: datetime | None
    reason: str | None
    etag: str | None = None

    @classmethod
    def from_json(cls, members: Mapping[str, Any]) -> Self:
        encoded = members.get("body_base64")
        body = members.get("body") if encoded is None else base64.b64decode(encoded)
        kept = encoded is not None or "body" in members
        return cls(**decode.read_fields(cls, {**members, "body": body, "body_kept": kept}))


@dataclass(frozen=True, slots=True, kw_only=True)
class SentMessage(Message):
    """The answer to a send. `replayed`: a message had the id already, and this is that message; or a repeated send with
    an idempotency key got the answer to the first send."""

    replayed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LeasedMessage(Message):
    """A pulled message. `receipt` names its lease, for ack, nack and extend."""

    receipt: str


@dataclass(frozen=True, slots=True)
class Nack:
    """A pulled message to give back with the next pull. `delay` None: the topic's back-off."""

    message: LeasedMessage
    delay: timedelta | None = field(default=None, kw_only=True)
    reason: str | None = field(default=None, kw_only=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class SettledLease:
    """What became of a message that a pull was to ack or nack. `id` is None if the receipt is malformed.

    `stale`: the lease or the message has ended. `unknown`: there is no such message.
    """

    id: str | None
    result: Settled


class Pulled(tuple[LeasedMessage, ...]):
    """The messages of a pull. `acked`, `nacked`: one result for each message that the pull was to ack or nack."""

    acked: tuple[SettledLease, ...] = ()
    nacked: tuple[SettledLease, ...] = ()

    @classmethod
    def from_json(cls, members: Mapping[str, Any]) -> Self:
        pulled = cls(decode.read(LeasedMessage, one) for one in members["messages"])
        pulled.acked = tuple(decode.read(SettledLease, one) for one in members.get("acked", ()))
        pulled.nacked = tuple(decode.read(SettledLease, one) for one in members.get("nacked", ()))
        return pulled


@dataclass(frozen=True, slots=True)
class NewMessage:
    """A message to send. Without `delay` and `deliver_at` it is due now; give at most one of them.

    `body`: a JSON value, or bytes. With a text content type it is a string. `id`: if it is empty, the client makes one.
    `ttl`: how long the message lives from its due moment on. `labels`: up to four names with values, for searches.
    `to`: where the message goes when it is due, in place of the topic's ready queue.
    `if_exists`: what to do if a live message has the id. `max_wait`: with `extend`, the longest time from the first
    send to the due moment.
    """

    body: Any
    id: str = field(default="", kw_only=True)
    delay: timedelta | None = field(default=None, kw_only=True)
    deliver_at: datetime | None = field(default=None, kw_only=True)
    ttl: timedelta | None = field(default=None, kw_only=True)
    max_retry: int | None = field(default=None, kw_only=True)
    headers: Mapping[str, str | int | float | bool] | None = field(default=None, kw_only=True)
    labels: Mapping[str, str] | None = field(default=None, kw_only=True)
    content_type: str | None = field(default=None, kw_only=True)
    to: Target | None = field(default=None, kw_only=True)
    if_exists: IfExists | None = field(default=None, kw_only=True)
    max_wait: timedelta | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if not self.id:
            object.__setattr__(self, "id", new_id())

    def members(self) -> dict[str, Any]:
        """Returns the members of a request that sends the message."""
        return content(self.body, self.content_type) | given(
            id=self.id,
            delay=self.delay,
            deliver_at=self.deliver_at,
            ttl=self.ttl,
            max_retry=self.max_retry,
            headers=self.headers,
            labels=self.labels,
            to=None if self.to is None else {"exchange": self.to.exchange, "routing_key": self.to.routing_key},
            if_exists=self.if_exists,
            max_wait=self.max_wait,
        )


def content(body: Any, content_type: str | None) -> dict[str, Any]:
    """Returns the members of a request that have the body and its content type."""
    if isinstance(body, bytes | bytearray | memoryview):
        encoded = base64.b64encode(body).decode()
        return {"body_base64": encoded, "content_type": content_type or "application/octet-stream"}
    return {"body": Verbatim(body)} | given(content_type=content_type)


@dataclass(frozen=True, slots=True, kw_only=True)
class SendResult:
    """The result for one message of many. `status`: the HTTP status. `message`: the message if the bridge accepted it;
    otherwise `error` says why not."""

    status: int
    message: SentMessage | None
    error: Problem | None

    @classmethod
    def from_json(cls, members: Mapping[str, Any]) -> Self:
        status, message, error = members["status"], members.get("message"), members.get("error")
        sent = None if message is None else decode.read(SentMessage, {**message, "replayed": status == 200})
        return cls(status=status, message=sent, error=None if error is None else problem_of(error))


@dataclass(frozen=True, slots=True, kw_only=True)
class AckResult:
    """The result for one receipt or id of an ack. `id` is None if the receipt is malformed.

    `stale`: the lease or the message has ended. `not_leased`: nobody has received the message yet. `unknown`: there is
    no such message.
    """

    id: str | None
    result: AckVerdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Transition:
    """One step of a message's life. `slot`: the queue in which the message begins to wait at this step. `late`: how
    late a release was. None: the step has no such value."""

    at: datetime
    what: str
    attempt: int
    slot: str | None
    late: timedelta | None
    token_id: str | None
    reason: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """The last steps of a message's life. `complete`: no older step is missing."""

    topic: str
    id: str
    items: tuple[Transition, ...]
    complete: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """The filter of a search or a bulk action. All fields must match; a field left out matches all.

    `topic` and `reason_pattern` may be patterns, in which `*` is any text. The topic `*` is all topics. `reason` is the
    whole reason.
    """

    topic: str | None = None
    state: Sequence[State] = ()
    due_after: datetime | None = None
    due_before: datetime | None = None
    id_prefix: str | None = None
    labels: Mapping[str, str] | None = None
    reason: str | None = None
    reason_pattern: str | None = None

    def members(self) -> dict[str, Any]:
        """Returns the members of a request that have this filter."""
        return given(
            topic=self.topic,
            state=list(self.state) or None,
            due_after=self.due_after,
            due_before=self.due_before,
            id_prefix=self.id_prefix,
            labels=self.labels,
            reason=self.reason,
            reason_pattern=self.reason_pattern,
        )


def new_id() -> str:
    """Returns a new id for a message. Ids sort by the millisecond in which they were made."""
    return f"{time.time_ns() // 1_000_000:012x}{secrets.token_hex(10)}"
