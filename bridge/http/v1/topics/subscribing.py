"""Creates, reads and removes subscriptions: a topic's due messages are posted to a receiver."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from starlette.responses import Response

from bridge.access.decision import Need
from bridge.access.token import Scope
from bridge.http.v1.contract.queries import PageQuery
from bridge.http.v1.document import examples
from bridge.http.v1.operation.call import ApiCall, JsonAnswer
from bridge.http.v1.operation.operation import TOPIC, Operation, ResponseDoc
from bridge.http.v1.topics.shown import RemovedOut
from bridge.http.v1.topics.subscription import SubscriptionOut, SubscriptionRequest, SubscriptionsOut, subscription_out
from bridge.loops.callbacks.may_call import why_not
from bridge.model.addresses import parse_url
from bridge.model.errors import InvalidRequest, NotFound
from bridge.service.reading.cursors import make_topic_cursor, read_topic_cursor
from bridge.service.topics.subscriptions import SubscriptionState

if TYPE_CHECKING:
    from bridge.service.pools.pools import Pools


async def subscribe(pools: Pools, call: ApiCall) -> Response:
    """Posts the topic's due messages to `url`, each signed as the Standard Webhooks specification defines.

    The receiver's answer decides. 2xx: the message is acked. 410: the subscription ends. 429, or 503 with Retry-After:
    the bridge pauses calls to this receiver. Any other answer, a redirect, a timeout or a failed connection is a failed
    attempt: the message is posted again after `backoff`, until its retries are used up; then it is a dead letter.

    A topic has at most one subscription, and this request replaces it. 422: `url` is not allowed, such as an address
    that is not public."""
    topic, wanted = call.topic, await call.body(SubscriptionRequest)
    if why := await why_not(parse_url(wanted.url), pools.settings.push_allow or ()):
        raise InvalidRequest.of("url", wanted.url, "https, and public addresses", why)
    subscription = wanted.subscription(topic)
    state = await pools.serving(topic).subscriptions.put(subscription, call.caller.maker)
    return JsonAnswer(subscription_out(state))


async def list_subscriptions(pools: Pools, call: ApiCall) -> Response:
    """Returns a page of subscriptions by topic, each in the form that `GET` shows for one topic. With a token, the page
    has only topics that the token may use."""
    query, caller = call.query(PageQuery), call.caller
    after = "" if query.cursor is None else read_topic_cursor(query.cursor)
    topics = [topic for topic in await pools.subscribed_topics() if topic > after and caller.sees(topic)]
    page = topics[: query.limit]
    found = await asyncio.gather(*(_state(pools, topic) for topic in page))
    more = len(topics) > len(page)
    items = [subscription_out(state) for state in found if state is not None]
    return JsonAnswer(SubscriptionsOut(items=items, next_cursor=make_topic_cursor(page[-1]) if more else None))


async def _state(pools: Pools, topic: str) -> SubscriptionState | None:
    try:
        return await pools.serving(topic).subscriptions.get(topic)
    except NotFound:
        return None  # somebody has just removed it


async def look_at_subscription(pools: Pools, call: ApiCall) -> Response:
    """Returns the subscription with its state, its counts and its latest failure. The answer does not have the secrets.

    404: the topic has no subscription."""
    topic = call.topic
    return JsonAnswer(subscription_out(await pools.serving(topic).subscriptions.get(topic)))


async def unsubscribe(pools: Pools, call: ApiCall) -> Response:
    """Stops posting the topic's messages. Calls in flight finish, and each answer still decides about its message. All
    other messages stay in the topic.

    404: the topic has no subscription."""
    topic = call.topic
    await pools.serving(topic).subscriptions.remove(topic)
    return JsonAnswer(RemovedOut(topic=topic, removed=True))


_NEED = Need(scope=Scope.ADMIN)
_ANSWERS = {200: ResponseDoc(description="The subscription", model=SubscriptionOut, example=examples.SUBSCRIPTION)}

OPERATIONS = (
    Operation(
        name="list_subscriptions",
        summary="List subscriptions",
        group="callbacks",
        method="GET",
        path="/v1/subscriptions",
        run=list_subscriptions,
        need=_NEED,
        query=PageQuery,
        answers={
            200: ResponseDoc(
                description="A page of subscriptions",
                model=SubscriptionsOut,
                example={"items": [examples.SUBSCRIPTION], "next_cursor": None},
            )
        },
    ),
    Operation(
        name="subscribe",
        summary="Create or replace a subscription",
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
        summary="Look up a subscription",
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
        summary="Remove a subscription",
        group="callbacks",
        method="DELETE",
        path=f"{TOPIC}/subscription",
        run=unsubscribe,
        need=_NEED,
        answers={
            200: ResponseDoc(
                description="The subscription is removed",
                model=RemovedOut,
                example={"topic": "orders", "removed": True},
            )
        },
        problems=(404, 422, 503),
    ),
)
