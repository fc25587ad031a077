"""Defines the answers about messages, and makes them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Annotated, Any, Final, Literal, get_args

import orjson
from msgspec import UNSET, Meta, Raw, UnsetType
from msgspec.structs import asdict

from bridge.http.problems import ProblemOut
from bridge.http.structs import Answer
from bridge.http.v1.contract.content import shown_body
from bridge.http.v1.contract.scalars import ShownInstant
from bridge.model.durations import format_instant
from bridge.model.header_values import as_text
from bridge.model.labels import unpacked
from bridge.model.message import JSON_TYPE, Envelope, Message, State, Target
from bridge.model.values import AckResult, AckVerdict, Leased, Page, Settled, SettledLease

StateName = Literal["waiting", "ready", "leased", "acked", "expired", "dead", "deleted"]


class TargetOut(Answer):
    exchange: str
    routing_key: str


class MessageOut(Answer, kw_only=True):
    """A message. If `body` and `body_base64` are absent, Redis did not keep the body."""

    topic: str
    id: str
    state: StateName
    body: Annotated[Raw | UnsetType, Meta(description="any JSON value; a string for a text content type")] = UNSET
    body_base64: Annotated[
        str | UnsetType, Meta(description="instead of `body`, for bytes that are neither JSON nor text")
    ] = UNSET
    content_type: Annotated[str, Meta(description="empty: the AMQP client that sent the message gave none")]
    headers: dict[str, Any]
    labels: Annotated[Mapping[str, str], Meta(description="given at the send, for searches")]
    to: Annotated[TargetOut | None, Meta(description="where it goes when it is due; null: to the topic's ready queue")]
    created_at: ShownInstant
    due_at: ShownInstant
    expires_at: ShownInstant | None
    attempts: Annotated[int, Meta(description="deliveries so far; over AMQP, those that failed")]
    max_retry: int
    lease_until: ShownInstant | None
    ended_at: ShownInstant | None
    reason: str | None


class LeasedOut(MessageOut, kw_only=True):
    receipt: Annotated[str, Meta(description="names this lease; give it to ack, nack and extend")]


class SettledItem(Answer):
    id: Annotated[str | None, Meta(description="null: the receipt is malformed")]
    result: Settled


class PulledOut(Answer):
    messages: list[LeasedOut]
    acked: Annotated[
        list[SettledItem] | UnsetType, Meta(description="one result for each of `ack`, in order; absent without `ack`")
    ] = UNSET
    nacked: Annotated[
        list[SettledItem] | UnsetType,
        Meta(description="one result for each of `nack`, in order; absent without `nack`"),
    ] = UNSET


class BatchItem(Answer):
    """The result for one message of a batch. Status 201 (accepted) and 200 (a live message had this id) come with
    `message`, any other status with `error`."""

    status: int
    message: MessageOut | UnsetType = UNSET
    error: ProblemOut | UnsetType = UNSET


class BatchOut(Answer):
    results: list[BatchItem]


class AckItem(Answer):
    id: Annotated[str | None, Meta(description="null: the receipt is malformed")]
    result: AckVerdict


class AckedOut(Answer):
    results: list[AckItem]


class PageOut(Answer):
    items: list[MessageOut]
    next_cursor: str | None


class ReplayedOut(Answer):
    replayed: int


class DroppedOut(Answer):
    dropped: int


def message_out(message: Message) -> MessageOut:
    record, envelope = message.record, message.envelope or _NO_ENVELOPE
    body, body_base64 = shown_body(envelope)
    return MessageOut(
        topic=record.topic,
        id=record.id,
        state=state_out(record.state),
        body=body,
        body_base64=body_base64,
        content_type=envelope.content_type,
        headers=headers_out(envelope.headers) if envelope.headers else {},
        labels=unpacked(record.labels) if record.labels else {},
        to=None if envelope.target is None else target_out(envelope.target),
        created_at=_instant(record.created_ms),
        due_at=_instant(record.due_ms),
        expires_at=_instant(record.expires_ms) if record.expires_ms else None,
        attempts=record.attempts,
        max_retry=record.max_retry,
        lease_until=_instant(record.lease_until_ms) if record.lease_until_ms else None,
        ended_at=_instant(record.ended_ms) if record.ended_ms else None,
        reason=record.reason or None,
    )


def pulled_out(
    pulled: Iterable[Leased], acked: Iterable[SettledLease] | None = None, nacked: Iterable[SettledLease] | None = None
) -> PulledOut:
    """Returns the answer to a pull. `acked`, `nacked`: what was settled beside it; None: the request had none."""
    return PulledOut(
        messages=[LeasedOut(**asdict(message_out(leased.message)), receipt=leased.receipt) for leased in pulled],
        acked=UNSET if acked is None else _settled_out(acked),
        nacked=UNSET if nacked is None else _settled_out(nacked),
    )


def _settled_out(settled: Iterable[SettledLease]) -> list[SettledItem]:
    return [SettledItem(id=one.id, result=one.result) for one in settled]


def page_out(page: Page) -> PageOut:
    return PageOut(items=[message_out(message) for message in page.items], next_cursor=page.next_cursor)


def acked_out(results: Iterable[AckResult]) -> AckedOut:
    return AckedOut(results=[AckItem(id=result.id, result=result.verdict) for result in results])


def state_out(state: State) -> StateName:
    return _STATES[state]


def target_out(target: Target) -> TargetOut:
    return TargetOut(exchange=target.exchange, routing_key=target.routing_key)


def headers_out(headers: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a message's headers for an answer. Values that an AMQP client gave, and that JSON can't hold, become
    text."""
    plain = str | int | float
    return {
        name: value if isinstance(value, plain) else orjson.loads(orjson.dumps(value, default=as_text))
        for name, value in headers.items()
    }


def instant_out(instant_ms: int | None) -> str | None:
    """Returns the instant as answers show it, in RFC 3339; None if it is 0 or None. `instant_ms`: Unix ms."""
    return _instant(instant_ms) if instant_ms else None


def _instant(instant_ms: int) -> str:
    second, ms = divmod(instant_ms, 1_000)
    return _second(second) + _MILLISECONDS[ms]


@lru_cache(maxsize=4_096)
def _second(second: int) -> str:
    return format_instant(second * 1_000)[: -len(".000Z")]


_MILLISECONDS: Final = tuple(f".{ms:03d}Z" for ms in range(1_000))
_STATES: Final[Mapping[State, StateName]] = {State[name.upper()]: name for name in get_args(StateName)}
_NO_ENVELOPE: Final = Envelope(content_type=JSON_TYPE, body=None)
