"""Defines the answers: the models document them, and the functions write them.

One answer may have hundreds of objects of one kind, such as messages. The functions for such objects write JSON piece
by piece, which costs a third of building a dict and dumping it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Annotated, Any, Final, Literal

import orjson
from pydantic import BaseModel, Field

from bridge.http import exact_json
from bridge.http.v1.contract.content import body_json
from bridge.http.v1.contract.scalars import ShownInstant
from bridge.model.durations import format_instant
from bridge.model.header_values import as_text
from bridge.model.labels import unpacked
from bridge.model.message import JSON_TYPE, Envelope, Message, State, Target
from bridge.model.values import AckResult, Leased, Page

StateName = Literal["waiting", "ready", "leased", "acked", "expired", "dead", "deleted"]


def _without_default(schema: dict[str, Any]) -> None:
    schema.pop("default", None)


MAY_BE_ABSENT: Final = Field(default=None, json_schema_extra=_without_default)
"""Marks a field that not every answer has. The field's schema shows no default, as clients would read it into answers.
"""


class TargetOut(BaseModel):
    exchange: str
    routing_key: str


class MessageOut(BaseModel):
    """A message. Without `body` and `body_base64`, Redis did not keep its body."""

    topic: str
    id: str
    state: StateName
    body: Annotated[Any, MAY_BE_ABSENT, Field(description="any JSON value; a string for a text content type")]
    body_base64: Annotated[
        str, MAY_BE_ABSENT, Field(description="instead of `body`, for bytes that are neither JSON nor text")
    ]
    content_type: Annotated[str, Field(description="empty: the AMQP client that sent the message gave none")]
    headers: dict[str, Any]
    labels: Annotated[dict[str, str], Field(description="given at the send, for searches")]
    to: Annotated[TargetOut | None, Field(description="where it goes when it is due; null: to the topic's ready queue")]
    created_at: ShownInstant
    due_at: ShownInstant
    expires_at: ShownInstant | None
    attempts: Annotated[int, Field(description="deliveries so far; over AMQP, those that failed")]
    max_retry: int
    lease_until: ShownInstant | None
    ended_at: ShownInstant | None
    reason: str | None


class LeasedOut(MessageOut):
    receipt: Annotated[str, Field(description="names this lease; give it to ack, nack and extend")]


class PulledOut(BaseModel):
    messages: list[LeasedOut]


class ProblemField(BaseModel):
    field: str
    value: Any
    limit: Any
    message: str


class FindingOut(BaseModel):
    severity: Literal["error", "warning"]
    says: str
    remedy: Annotated[str, Field(description="what an operator can do; empty if `says` says it")]


class ProblemOut(BaseModel):
    """A problem as RFC 9457 defines it. `errors`: one entry for each field that is wrong.

    `state`: of the message, with 409 and 412. `retry_after_s`: with 429 and 503. `scope`: the one that the token lacks,
    with 403. `parts`, `policies` and `findings`: of `/health/ready`, with 503."""

    type: str
    title: str
    status: int
    detail: str
    errors: list[ProblemField]
    request_id: str
    state: Annotated[str, MAY_BE_ABSENT]
    retry_after_s: Annotated[int, MAY_BE_ABSENT]
    scope: Annotated[str, MAY_BE_ABSENT]
    parts: Annotated[dict[str, str], MAY_BE_ABSENT]
    policies: Annotated[str, MAY_BE_ABSENT]
    findings: Annotated[list[FindingOut], MAY_BE_ABSENT]


class BatchItem(BaseModel):
    """Status 201 (accepted) or 200 (a message had this id) with `message`; any other status with `error`."""

    status: int
    message: Annotated[MessageOut, MAY_BE_ABSENT]
    error: Annotated[ProblemOut, MAY_BE_ABSENT]


class BatchOut(BaseModel):
    results: list[BatchItem]


class AckItem(BaseModel):
    id: Annotated[str | None, Field(description="null: the receipt is malformed")]
    result: Literal["acked", "stale", "not_leased", "unknown"]


class AckedOut(BaseModel):
    results: list[AckItem]


class PageOut(BaseModel):
    items: list[MessageOut]
    next_cursor: str | None


class ReplayedOut(BaseModel):
    replayed: int


class DroppedOut(BaseModel):
    dropped: int


def message_json(message: Message, *, plain: bool = False) -> bytes:
    """Returns the message as `MessageOut` documents it. `plain`: the body is known to be JSON."""
    record, envelope = message.record, message.envelope
    return (
        b'{"topic":%b,"id":%b,"state":%b,%b"content_type":%b,"headers":%b,"labels":%b,"to":%b,"created_at":%b,"due_at":%b,'
        b'"expires_at":%b,"attempts":%d,"max_retry":%d,"lease_until":%b,"ended_at":%b,"reason":%b}'
    ) % (
        orjson.dumps(record.topic),
        orjson.dumps(record.id),
        _STATES[record.state],
        _body(envelope, plain),
        _JSON_TYPE if envelope is None else orjson.dumps(envelope.content_type),
        exact_json.dumps(_in_json(envelope.headers)) if envelope is not None and envelope.headers else b"{}",
        orjson.dumps(unpacked(record.labels)) if record.labels else b"{}",
        b"null" if envelope is None or envelope.target is None else _target(envelope.target),
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
    """Returns the leased messages as `PulledOut` documents them."""
    messages = [
        b'%b,"receipt":%b}' % (message_json(leased.message)[:-1], orjson.dumps(leased.receipt)) for leased in pulled
    ]
    return b'{"messages":[%b]}' % b",".join(messages)


def page_json(page: Page) -> bytes:
    """Returns the page as `PageOut` documents it."""
    items = b",".join(message_json(message) for message in page.items)
    return b'{"items":[%b],"next_cursor":%b}' % (items, orjson.dumps(page.next_cursor))


def acked_json(results: Iterable[AckResult]) -> bytes:
    """Returns the results as `AckedOut` documents them."""
    items = [b'{"id":%b,"result":%b}' % (orjson.dumps(result.id), orjson.dumps(result.verdict)) for result in results]
    return b'{"results":[%b]}' % b",".join(items)


def _in_json(headers: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the headers for JSON. Values from AMQP clients for which JSON has no form become text."""
    plain = str | int | float
    return {
        name: value if isinstance(value, plain) else orjson.loads(orjson.dumps(value, default=as_text))
        for name, value in headers.items()
    }


def _target(target: Target) -> bytes:
    return orjson.dumps({"exchange": target.exchange, "routing_key": target.routing_key})


def _body(envelope: Envelope | None, plain: bool) -> bytes:
    """Returns the body as a JSON member with a comma; empty if the body was not kept."""
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
