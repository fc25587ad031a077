"""Subscriptions: having a topic's messages called out to a receiver."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import BaseModel, BeforeValidator, Field, PlainValidator, WithJsonSchema
from pydantic_core import PydanticCustomError
from starlette.responses import Response

from bridge.access.decision import Need
from bridge.access.token import Scope
from bridge.http.v1 import examples
from bridge.http.v1.call import Call, json_answer
from bridge.http.v1.operation import TOPIC, Answer, Operation
from bridge.http.v1.policy import BackoffRequest, GrowingOut, StepsOut, backoff_json, backoff_of
from bridge.http.v1.requests import Request
from bridge.http.v1.results import RemovedOut
from bridge.http.v1.scalars import duration, duration_schema, refused, whole
from bridge.loops.callbacks.may_call import why_not
from bridge.model.addresses import MAX_URL, URL_FORM, URL_PATTERN, Url, parse_url
from bridge.model.durations import format_instant
from bridge.model.errors import InvalidRequest
from bridge.model.webhooks import SECRET_FORM, SECRET_PATTERN
from bridge.service.subscriptions import (
    DEFAULT_BACKOFF,
    DEFAULT_CONCURRENCY,
    DEFAULT_TIMEOUT_MS,
    Standing,
    Subscription,
)

if TYPE_CHECKING:
    from bridge.service.pools import Pools

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
    given = value if isinstance(value, list) else [value]
    if 0 < len(given) <= _MOST_SECRETS and all(isinstance(one, str) and _SECRET.match(one) for one in given):
        return tuple(given)
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
            "description": "each makes a signature, so several while receivers change from one to another",
        }
    ),
]
_Url = Annotated[
    Url, PlainValidator(_url), WithJsonSchema({"type": "string", "maxLength": MAX_URL, "pattern": URL_PATTERN})
]


class SubscriptionRequest(Request):
    """The whole subscription: what is not given takes its default. `timeout`: of one call; `concurrency`: calls under
    way at once, in each bridge process."""

    url: _Url
    secret: _Secrets
    concurrency: Annotated[int, Field(strict=True, ge=1, le=100), BeforeValidator(whole)] = DEFAULT_CONCURRENCY
    timeout: _CallTime = DEFAULT_TIMEOUT_MS
    backoff: BackoffRequest | None = None


class FailureOut(BaseModel):
    at: str
    id: Annotated[str, Field(description="the message's")]
    reason: Annotated[
        str, Field(description="status, redirect, timeout, connection, answer_too_long, address, destination")
    ]
    detail: str


class SubscriptionOut(BaseModel):
    """Without its secrets. `url` null: each message names its receiver itself, as tasks do."""

    topic: str
    url: str | None
    secrets: Annotated[int, Field(description="how many there are")]
    concurrency: int
    timeout_ms: int
    backoff: GrowingOut | StepsOut
    created_at: str
    state: Annotated[
        Literal["active", "held", "ended"],
        Field(description="held: the receiver asked to be left alone; ended: it answered 410"),
    ]
    held_ms: Annotated[int, Field(description="for so long yet")]
    ended_at: str | None
    delivered: Annotated[int, Field(description="calls that the receiver took, since this subscription was made")]
    failed: int
    last_delivered_at: str | None
    last_failure: FailureOut | None


async def subscribe(pools: Pools, call: Call) -> Response:
    """Has the topic's due messages called out to `url`, each signed as Standard Webhooks has it: 2xx acks the message,
    410 ends the subscription, 429 (or 503 with Retry-After) has the receiver left alone, all else is a failed attempt
    and comes again after `backoff`, until the message's retries are used up. Replaces the topic's subscription."""
    topic, wanted = call.topic, await call.body(SubscriptionRequest)
    if why := await why_not(wanted.url, pools.settings.push_allow or ()):
        raise InvalidRequest.of("url", str(wanted.url), "https, and public addresses", why)
    subscription = Subscription(
        topic=topic,
        url=str(wanted.url),
        secrets=wanted.secret,
        concurrency=wanted.concurrency,
        timeout_ms=wanted.timeout,
        backoff=backoff_of(wanted.backoff) or DEFAULT_BACKOFF,
    )
    return json_answer(_subscription_json(await pools.serving(topic).subscriptions.put(subscription)))


async def look_at_subscription(pools: Pools, call: Call) -> Response:
    """The subscription but for its secrets, how it stands, and its latest failure."""
    topic = call.topic
    return json_answer(_subscription_json(await pools.serving(topic).subscriptions.get(topic)))


async def unsubscribe(pools: Pools, call: Call) -> Response:
    """Calls nothing out any longer. Calls under way end, and count; the topic's other messages stay."""
    topic = call.topic
    await pools.serving(topic).subscriptions.remove(topic)
    return json_answer({"topic": topic, "removed": True})


def _subscription_json(standing: Standing) -> dict[str, Any]:
    one, failure = standing.subscription, standing.last_failure
    return {
        "topic": one.topic,
        "url": one.url,
        "secrets": len(one.secrets),
        "concurrency": one.concurrency,
        "timeout_ms": one.timeout_ms,
        "backoff": backoff_json(one.backoff),
        "created_at": format_instant(one.created_ms),
        "state": "ended" if one.ended_ms else "held" if standing.held_ms else "active",
        "held_ms": standing.held_ms,
        "ended_at": format_instant(one.ended_ms) if one.ended_ms else None,
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


_NEED = Need(scope=Scope.ADMIN)
_ANSWERS = {200: Answer(says="The subscription", model=SubscriptionOut, example=examples.SUBSCRIPTION)}

OPERATIONS = (
    Operation(
        name="subscribe",
        group="callbacks",
        method="PUT",
        path=f"{TOPIC}/subscription",
        run=subscribe,
        need=_NEED,
        takes=SubscriptionRequest,
        examples=examples.SUBSCRIPTIONS,
        answers=_ANSWERS,
        problems=(400, 413, 422, 503),
    ),
    Operation(
        name="look_at_subscription",
        group="callbacks",
        method="GET",
        path=f"{TOPIC}/subscription",
        run=look_at_subscription,
        need=_NEED,
        answers=_ANSWERS,
        problems=(404, 422, 503),
    ),
    Operation(
        name="unsubscribe",
        group="callbacks",
        method="DELETE",
        path=f"{TOPIC}/subscription",
        run=unsubscribe,
        need=_NEED,
        answers={200: Answer(says="It is gone", model=RemovedOut, example={"topic": "orders", "removed": True})},
        problems=(404, 422, 503),
    ),
)
