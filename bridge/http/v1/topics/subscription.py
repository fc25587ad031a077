"""Defines the forms in which clients write and read a subscription."""

from __future__ import annotations

import re
from typing import Annotated, Any, Final, Literal

from msgspec import Meta

from bridge.http.structs import Answer, Refused, Request, Scalar, default
from bridge.http.v1.contract.results import instant_out
from bridge.http.v1.contract.scalars import Duration, Number, ShownInstant
from bridge.http.v1.topics.policy import BackoffOut, GrowingRequest, Steps, backoff_of, backoff_out
from bridge.model.addresses import MAX_URL, URL_FORM, URL_PATTERN, parse_url
from bridge.model.durations import format_instant
from bridge.model.webhooks import SECRET_FORM, SECRET_PATTERN
from bridge.service.topics.subscriptions import (
    DEFAULT_BACKOFF,
    DEFAULT_CONCURRENCY,
    DEFAULT_TIMEOUT_MS,
    Subscription,
    SubscriptionState,
)

_MOST_SECRETS: Final = 5
_LONGEST_CALL_MS: Final = 300_000
_SECRET = re.compile(SECRET_PATTERN[:-1] + r"\Z")
_SECRET_SCHEMA: Final = {"type": "string", "pattern": SECRET_PATTERN}
_SECRETS_FORM: Final = f"{SECRET_FORM}; or a list of up to {_MOST_SECRETS} of them"


class _Url(str, metaclass=Scalar):
    @classmethod
    def read(cls, value: Any) -> Any:
        try:
            return str(parse_url(value if isinstance(value, str) else ""))
        except ValueError as error:
            raise Refused(URL_FORM.removeprefix("must be "), str(error)) from None

    @classmethod
    def schema(cls) -> dict[str, Any]:
        return {"type": "string", "maxLength": MAX_URL, "pattern": URL_PATTERN}


class _Secrets(tuple[str, ...], metaclass=Scalar):
    @classmethod
    def read(cls, value: Any) -> Any:
        secrets = value if isinstance(value, list) else [value]
        if 0 < len(secrets) <= _MOST_SECRETS and all(isinstance(text, str) and _SECRET.match(text) for text in secrets):
            return tuple(secrets)
        raise Refused(f"whsec_…, at most {_MOST_SECRETS}", _SECRETS_FORM, is_secret=True)

    @classmethod
    def schema(cls) -> dict[str, Any]:
        several = {"type": "array", "items": _SECRET_SCHEMA, "minItems": 1, "maxItems": _MOST_SECRETS}
        return {
            "anyOf": [_SECRET_SCHEMA, several],
            "description": "Each secret signs every call. Give the old and the new one while receivers change.",
        }


class _CallTime(Duration):
    least = (1_000, "1 s")
    most = (_LONGEST_CALL_MS, "5 min")


class _Concurrency(Number):
    least = 1
    most = 100


class SubscriptionRequest(Request):
    """The whole subscription. A field that is left out takes its default. `timeout`: the time limit of one call.
    `concurrency`: the most calls in flight, in each bridge process."""

    url: _Url
    secret: _Secrets
    concurrency: _Concurrency = default(DEFAULT_CONCURRENCY)
    timeout: _CallTime = default(DEFAULT_TIMEOUT_MS)
    backoff: GrowingRequest | Steps | None = None

    def subscription(self, topic: str) -> Subscription:
        return Subscription(
            topic=topic,
            url=self.url,
            secrets=self.secret,
            concurrency=self.concurrency,
            timeout_ms=self.timeout,
            backoff=backoff_of(self.backoff) or DEFAULT_BACKOFF,
        )


class FailedCallOut(Answer):
    at: ShownInstant
    id: Annotated[str, Meta(description="the message's id")]
    reason: Annotated[str, Meta(description="status, redirect, timeout, connection, address, destination")]
    detail: str


class SubscriptionOut(Answer):
    """A subscription. `url` null: each message names its own receiver, as messages of the task wire do."""

    topic: str
    url: str | None
    secrets: Annotated[int, Meta(description="how many secrets there are")]
    concurrency: int
    timeout_ms: int
    backoff: BackoffOut
    created_at: ShownInstant
    state: Annotated[
        Literal["active", "held", "ended"],
        Meta(description="held: the receiver asked for a pause; ended: the receiver answered 410"),
    ]
    held_ms: Annotated[int, Meta(description="until calls go on; 0: they are not held")]
    ended_at: ShownInstant | None
    delivered: Annotated[int, Meta(description="calls that the receiver accepted since the subscription was created")]
    failed: Annotated[int, Meta(description="failed attempts since the subscription was created")]
    last_delivered_at: ShownInstant | None
    last_failure: FailedCallOut | None


class SubscriptionsOut(Answer):
    items: list[SubscriptionOut]
    next_cursor: str | None


def subscription_out(state: SubscriptionState) -> SubscriptionOut:
    subscription, failure = state.subscription, state.last_failure
    return SubscriptionOut(
        topic=subscription.topic,
        url=subscription.url,
        secrets=len(subscription.secrets),
        concurrency=subscription.concurrency,
        timeout_ms=subscription.timeout_ms,
        backoff=backoff_out(subscription.backoff),
        created_at=format_instant(subscription.created_ms),
        state="ended" if subscription.ended_ms else "held" if state.held_ms else "active",
        held_ms=state.held_ms,
        ended_at=instant_out(subscription.ended_ms),
        delivered=state.delivered,
        failed=state.failed,
        last_delivered_at=instant_out(state.last_delivered_ms),
        last_failure=None
        if failure is None
        else FailedCallOut(at=format_instant(failure.at_ms), id=failure.id, reason=failure.reason, detail=failure.says),
    )
