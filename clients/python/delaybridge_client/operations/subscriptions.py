"""Describes the HTTP calls on subscriptions as `Operation` values, without I/O: list, look up, subscribe and
unsubscribe."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from delaybridge_client.encode import given
from delaybridge_client.operation import Operation, reads, reads_nothing, reads_page
from delaybridge_client.values.page import Page
from delaybridge_client.values.subscription import Subscription
from delaybridge_client.values.topic import Backoff

_SUBSCRIPTION: Final = "/v1/topics/{topic}/subscription"


def list_subscriptions(*, limit: int | None = None, cursor: str | None = None) -> Operation[Page[Subscription]]:
    """Returns a page of the subscriptions of all topics."""
    return Operation(
        method="GET",
        path="/v1/subscriptions",
        query=given(limit=limit, cursor=cursor),
        read=reads_page(Subscription),
    )


def look_at_subscription(topic: str) -> Operation[Subscription]:
    """Returns the topic's subscription, without its secrets."""
    return Operation(method="GET", path=_SUBSCRIPTION, names={"topic": topic}, read=reads(Subscription))


def subscribe(
    topic: str,
    url: str,
    secret: str | Sequence[str],
    *,
    concurrency: int | None = None,
    timeout: timedelta | None = None,
    backoff: Backoff | None = None,
) -> Operation[Subscription]:
    """Makes the bridge post each due message of the topic to `url`. `secret`: one `whsec_…`, or up to five secrets."""
    return Operation(
        method="PUT",
        path=_SUBSCRIPTION,
        names={"topic": topic},
        body={"url": url, "secret": secret if isinstance(secret, str) else list(secret)}
        | given(concurrency=concurrency, timeout=timeout, backoff=None if backoff is None else backoff.as_json()),
        read=reads(Subscription),
    )


def unsubscribe(topic: str) -> Operation[None]:
    """Ends the topic's subscription."""
    return Operation(method="DELETE", path=_SUBSCRIPTION, names={"topic": topic}, read=reads_nothing, repeatable=False)
