"""What callers are answered: the models document it, the functions write it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import orjson
from pydantic import BaseModel, Field

from bridge.durations import format_instant
from bridge.http.v1.content import body_json
from bridge.http.v1.policy import PolicyOut, policy_json
from bridge.message import JSON_TYPE, Message
from bridge.service.values import AckResult, Leased, Page, TopicInfo
from bridge.store.envelopes import as_text

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


def message_json(message: Message) -> dict[str, Any]:
    record, envelope = message.record, message.envelope
    return {
        "topic": record.topic,
        "id": record.id,
        "state": record.state.label,
        **body_json(envelope),
        "content_type": JSON_TYPE if envelope is None else envelope.content_type,
        "headers": {} if envelope is None else _in_json(envelope.headers),
        "created_at": format_instant(record.created_ms),
        "due_at": format_instant(record.due_ms),
        "expires_at": _instant(record.expires_ms),
        "attempts": record.attempts,
        "max_retry": record.max_retry,
        "lease_until": _instant(record.lease_until_ms),
        "ended_at": _instant(record.ended_ms),
        "reason": record.reason or None,
    }


def leased_json(leased: Leased) -> dict[str, Any]:
    return {**message_json(leased.message), "receipt": leased.receipt}


def page_json(page: Page) -> dict[str, Any]:
    return {"items": [message_json(message) for message in page.items], "next_cursor": page.next_cursor}


def acked_json(results: list[AckResult]) -> dict[str, Any]:
    return {"results": [{"id": one.id, "result": one.verdict.value} for one in results]}


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


def _instant(instant_ms: int) -> str | None:
    return format_instant(instant_ms) if instant_ms else None
