"""Creates, reads and removes subscriptions: a topic's due messages are posted to a receiver."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.responses import Response

from bridge.access.decision import Need
from bridge.access.token import Scope
from bridge.http.v1 import examples
from bridge.http.v1.call import ApiCall, json_answer
from bridge.http.v1.operation import TOPIC, Operation, ResponseDoc
from bridge.http.v1.subscription import SubscriptionOut, SubscriptionRequest, subscription_json
from bridge.http.v1.topic import RemovedOut
from bridge.loops.callbacks.may_call import why_not
from bridge.model.errors import InvalidRequest

if TYPE_CHECKING:
    from bridge.service.pools import Pools


async def subscribe(pools: Pools, call: ApiCall) -> Response:
    """Posts the topic's due messages to `url`, each signed as the Standard Webhooks specification defines.

    The receiver's answer decides. 2xx: the message is acked. 410: the subscription ends. 429, or 503 with Retry-After:
    the bridge pauses calls to this receiver. Any other answer, a redirect, a timeout or a failed connection is a failed
    attempt: the message is posted again after `backoff`, until its retries are used up; then it is a dead letter.

    A topic has one subscription. This request replaces it. 422: `url` is not allowed, such as an address that is not
    public."""
    topic, wanted = call.topic, await call.body(SubscriptionRequest)
    if why := await why_not(wanted.url, pools.settings.push_allow or ()):
        raise InvalidRequest.of("url", str(wanted.url), "https, and public addresses", why)
    subscription = wanted.subscription(topic)
    standing = await pools.serving(topic).subscriptions.put(subscription, call.caller.maker)
    return json_answer(subscription_json(standing))


async def look_at_subscription(pools: Pools, call: ApiCall) -> Response:
    """Returns the subscription without its secrets, its state, its counts and its latest failure.

    404: the topic has no subscription."""
    topic = call.topic
    return json_answer(subscription_json(await pools.serving(topic).subscriptions.get(topic)))


async def unsubscribe(pools: Pools, call: ApiCall) -> Response:
    """Stops posting the topic's messages. Calls in flight finish and count. The topic keeps its other messages.

    404: the topic has no subscription."""
    topic = call.topic
    await pools.serving(topic).subscriptions.remove(topic)
    return json_answer({"topic": topic, "removed": True})


_NEED = Need(scope=Scope.ADMIN)
_ANSWERS = {200: ResponseDoc(description="The subscription", model=SubscriptionOut, example=examples.SUBSCRIPTION)}

OPERATIONS = (
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
