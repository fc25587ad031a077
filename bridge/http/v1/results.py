"""What callers are answered: the models document it, the functions write it.

What there may be by the hundred in one answer is written as JSON piece by piece, which costs a third of what a dict
and its dump do.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Annotated, Any, Literal

import orjson
from pydantic import BaseModel, Field

from bridge.http import exact_json
from bridge.http.v1.content import body_json
from bridge.http.v1.policy import PolicyOut, policy_json
from bridge.model.durations import format_instant
from bridge.model.header_values import as_text
from bridge.model.message import JSON_TYPE, Envelope, Message, State
from bridge.model.values import AckResult, Leased, Page, TopicInfo

StateName = Literal["waiting", "ready", "leased", "acked", "expired", "dead", "deleted"]


class MessageOut(BaseModel):
    """One message. Without `body` and `body_base64`, the body was not kept."""

    topic: str
    id: str
    state: StateName
    body: Annotated[Any, Field(default=None, description="any JSON value; a string with a text type")]
    body_base64: Annotated[str, Field(default="", description="in place of `body`: what is neither JSON nor text")]
    content_type: str
    headers: dict[str, Any]
    created_at: str
    due_at: str
    expires_at: str | None
    attempts: Annotated[int, Field(description="deliveries handed out so far")]
    max_retry: int
    lease_until: str | None
    ended_at: str | None
    reason: str | None


class LeasedOut(MessageOut):
    receipt: Annotated[str, Field(description="names this lease in ack, nack and extend")]


class PulledOut(BaseModel):
    messages: list[LeasedOut]


class ProblemField(BaseModel):
    field: str
    value: Any
    limit: Any
    message: str


class ProblemOut(BaseModel):
    """RFC 9457. `state`: of a conflict; `retry_after_s`: of a store that is away, and of a token's limit; `scope`: that
    is needed; `parts`, `policies` and `findings`: of a bridge not ready."""

    type: str
    title: str
    status: int
    detail: str
    errors: list[ProblemField]
    request_id: str
    state: Annotated[str, Field(default="")]
    retry_after_s: Annotated[int, Field(default=1)]
    scope: Annotated[str, Field(default="")]
    parts: Annotated[dict[str, str], Field(default_factory=dict)]


class BatchItem(BaseModel):
    """A message with 201 (accepted) or 200 (its id was live already), an error with any other status."""

    status: int
    message: Annotated[MessageOut, Field(default=None)]
    error: Annotated[ProblemOut, Field(default=None)]


class BatchOut(BaseModel):
    results: list[BatchItem]


class AckItem(BaseModel):
    id: Annotated[str | None, Field(description="null: the receipt can't be read")]
    result: Literal["acked", "stale", "unknown"]


class AckedOut(BaseModel):
    results: list[AckItem]


class PageOut(BaseModel):
    items: list[MessageOut]
    next_cursor: str | None


class ReplayedOut(BaseModel):
    replayed: int


class DroppedOut(BaseModel):
    dropped: int


class QueuesOut(BaseModel):
    ready: str
    dead: str


class TopicOut(BaseModel):
    topic: str
    counts: Annotated[dict[str, int], Field(description="by state")]
    overdue: Annotated[int, Field(description="waiting, and past due")]
    waiting_by_due: Annotated[dict[str, int], Field(description="1m, 10m, 30m, 1h, 6h, 1d, 7d, 30d, beyond")]
    lateness_ms: Annotated[dict[str, float | None], Field(description="p50, p90, p99, max of this process's latest")]
    policy: PolicyOut
    queues: QueuesOut


class TopicsOut(BaseModel):
    topics: list[TopicOut]


class RemovedOut(BaseModel):
    topic: str
    removed: Literal[True]


def message_json(message: Message, *, plain: bool = False) -> bytes:
    """`plain`: the body is known to be JSON."""
    record, envelope = message.record, message.envelope
    return (
        b'{"topic":%b,"id":%b,"state":%b,%b"content_type":%b,"headers":%b,"created_at":%b,"due_at":%b,"expires_at":%b,'
        b'"attempts":%d,"max_retry":%d,"lease_until":%b,"ended_at":%b,"reason":%b}'
    ) % (
        orjson.dumps(record.topic),
        orjson.dumps(record.id),
        _STATES[record.state],
        _body(envelope, plain),
        _JSON_TYPE if envelope is None else orjson.dumps(envelope.content_type),
        exact_json.dumps(_in_json(envelope.headers)) if envelope is not None and envelope.headers else b"{}",
        _instant(record.created_ms),
        _instant(record.due_ms),
        _instant(record.expires_ms) if record.expires_ms else b"null",
        record.attempts,
        record.max_retry,
        _instant(record.lease_until_ms) if record.lease_until_ms else b"null",
        _instant(record.ended_ms) if record.ended_ms else b"null",
        orjson.dumps(record.reason) if record.reason else b"null",
    )


def pulled_json(pulled: Iterable[Leased]) -> bytes:
    messages = [b'%b,"receipt":%b}' % (message_json(one.message)[:-1], orjson.dumps(one.receipt)) for one in pulled]
    return b'{"messages":[%b]}' % b",".join(messages)


def page_json(page: Page) -> bytes:
    items = b",".join(message_json(message) for message in page.items)
    return b'{"items":[%b],"next_cursor":%b}' % (items, orjson.dumps(page.next_cursor))


def acked_json(results: Iterable[AckResult]) -> bytes:
    items = [b'{"id":%b,"result":%b}' % (orjson.dumps(one.id), orjson.dumps(one.verdict)) for one in results]
    return b'{"results":[%b]}' % b",".join(items)


def topic_json(info: TopicInfo) -> dict[str, Any]:
    return {
        "topic": info.topic,
        "counts": info.counts,
        "overdue": info.overdue,
        "waiting_by_due": info.waiting_by_due,
        "lateness_ms": info.lateness_ms,
        "policy": policy_json(info.policy),
        "queues": {"ready": info.ready_queue, "dead": info.dead_queue},
    }


def _in_json(headers: Mapping[str, Any]) -> dict[str, Any]:
    """An AMQP client's may hold what JSON has no form for."""
    plain = str | int | float
    return {
        name: value if isinstance(value, plain) else orjson.loads(orjson.dumps(value, default=as_text))
        for name, value in headers.items()
    }


def _body(envelope: Envelope | None, plain: bool) -> bytes:
    """The member that the body is, and a comma; nothing where it was not kept."""
    if plain and envelope is not None and envelope.body is not None:
        return b'"body":%b,' % envelope.body
    shown = exact_json.dumps(body_json(envelope))
    return b"%b," % shown[1:-1] if len(shown) > 2 else b""


def _instant(instant_ms: int) -> bytes:
    second, ms = divmod(instant_ms, 1_000)
    return b'"%b.%03dZ"' % (_second(second), ms)


@lru_cache(maxsize=4_096)
def _second(second: int) -> bytes:
    return format_instant(second * 1_000).encode()[: -len(".000Z")]


_STATES = {state: orjson.dumps(state.label) for state in State}
_JSON_TYPE = orjson.dumps(JSON_TYPE)
