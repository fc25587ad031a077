"""Defines a subscription as clients write it and as they read it."""

from __future__ import annotations

import re
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, BeforeValidator, Field, PlainValidator, WithJsonSchema
from pydantic_core import PydanticCustomError

from bridge.http.v1.contract.requests import Request
from bridge.http.v1.contract.scalars import ShownInstant, duration, duration_schema, refused, whole
from bridge.http.v1.topics.policy import BackoffRequest, GrowingOut, StepsOut, backoff_json, backoff_of
from bridge.model.addresses import MAX_URL, URL_FORM, URL_PATTERN, Url, parse_url
from bridge.model.durations import format_instant
from bridge.model.webhooks import SECRET_FORM, SECRET_PATTERN
from bridge.service.topics.subscriptions import (
    DEFAULT_BACKOFF,
    DEFAULT_CONCURRENCY,
    DEFAULT_TIMEOUT_MS,
    Standing,
    Subscription,
)

_MOST_SECRETS: Final = 5
_LONGEST_CALL_MS: Final = 300_000
_SECRET = re.compile(SECRET_PATTERN[:-1] + r"\Z")
_SECRET_SCHEMA: Final = {"type": "string", "pattern": SECRET_PATTERN}
_SECRETS_FORM: Final = f"{SECRET_FORM}; or a list of up to {_MOST_SECRETS} of them"


def _url(value: Any) -> Url:
    try:
        return parse_url(value if isinstance(value, str) else "")
    except ValueError as error:
        raise refused(URL_FORM.removeprefix("must be "), str(error)) from None


def _secrets(value: Any) -> tuple[str, ...]:
    secrets = value if isinstance(value, list) else [value]
    if 0 < len(secrets) <= _MOST_SECRETS and all(isinstance(text, str) and _SECRET.match(text) for text in secrets):
        return tuple(secrets)
    context = {"message": _SECRETS_FORM, "limit": f"whsec_…, at most {_MOST_SECRETS}", "value": None}
    raise PydanticCustomError("refused", "{message}", context)


_CallTime = Annotated[
    int,
    PlainValidator(duration(1_000, _LONGEST_CALL_MS, "1 s", "5 min")),
    duration_schema(1_000, _LONGEST_CALL_MS),
]
_Secrets = Annotated[
    tuple[str, ...],
    PlainValidator(_secrets),
    WithJsonSchema(
        {
            "anyOf": [
                _SECRET_SCHEMA,
                {"type": "array", "items": _SECRET_SCHEMA, "minItems": 1, "maxItems": _MOST_SECRETS},
            ],
            "description": "Each secret signs every call. Give the old and the new one while receivers change.",
        }
    ),
]
_Url = Annotated[
    Url, PlainValidator(_url), WithJsonSchema({"type": "string", "maxLength": MAX_URL, "pattern": URL_PATTERN})
]


class SubscriptionRequest(Request):
    """The whole subscription. A field that is left out takes its default. `timeout`: of one call. `concurrency`: calls
    in flight at once, in each bridge process."""

    url: _Url
    secret: _Secrets
    concurrency: Annotated[int, Field(strict=True, ge=1, le=100), BeforeValidator(whole)] = DEFAULT_CONCURRENCY
    timeout: _CallTime = DEFAULT_TIMEOUT_MS
    backoff: BackoffRequest | None = None

    def subscription(self, topic: str) -> Subscription:
        return Subscription(
            topic=topic,
            url=str(self.url),
            secrets=self.secret,
            concurrency=self.concurrency,
            timeout_ms=self.timeout,
            backoff=backoff_of(self.backoff) or DEFAULT_BACKOFF,
        )


class FailedCallOut(BaseModel):
    at: ShownInstant
    id: Annotated[str, Field(description="the message's id")]
    reason: Annotated[str, Field(description="status, redirect, timeout, connection, address, destination")]
    detail: str


class SubscriptionOut(BaseModel):
    """A subscription. `url` null: each message names its receiver, as those of the task wire do."""

    topic: str
    url: str | None
    secrets: Annotated[int, Field(description="how many secrets there are")]
    concurrency: int
    timeout_ms: int
    backoff: GrowingOut | StepsOut
    created_at: ShownInstant
    state: Annotated[
        Literal["active", "held", "ended"],
        Field(description="held: the receiver asked for a pause; ended: the receiver answered 410"),
    ]
    held_ms: Annotated[int, Field(description="until calls go on; 0: they are not held")]
    ended_at: ShownInstant | None
    delivered: Annotated[int, Field(description="calls that the receiver accepted since the subscription was created")]
    failed: Annotated[int, Field(description="failed attempts since the subscription was created")]
    last_delivered_at: ShownInstant | None
    last_failure: FailedCallOut | None


class SubscriptionsOut(BaseModel):
    items: list[SubscriptionOut]
    next_cursor: str | None


def subscription_json(standing: Standing) -> dict[str, Any]:
    """Returns the subscription as `SubscriptionOut` documents it."""
    subscription, failure = standing.subscription, standing.last_failure
    return {
        "topic": subscription.topic,
        "url": subscription.url,
        "secrets": len(subscription.secrets),
        "concurrency": subscription.concurrency,
        "timeout_ms": subscription.timeout_ms,
        "backoff": backoff_json(subscription.backoff),
        "created_at": format_instant(subscription.created_ms),
        "state": "ended" if subscription.ended_ms else "held" if standing.held_ms else "active",
        "held_ms": standing.held_ms,
        "ended_at": format_instant(subscription.ended_ms) if subscription.ended_ms else None,
        "delivered": standing.delivered,
        "failed": standing.failed,
        "last_delivered_at": format_instant(standing.last_delivered_ms) if standing.last_delivered_ms else None,
        "last_failure": None
        if failure is None
        else {
            "at": format_instant(failure.at_ms),
            "id": failure.id,
            "reason": failure.reason,
            "detail": failure.says,
        },
    }
