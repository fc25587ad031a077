"""Creates and reads subscriptions for the tests of callbacks."""

from __future__ import annotations

import base64
from typing import Any

from tests.callbacks.receiver import Received, Receiver
from tests.integration.topic import Json, Topic
from tests.waiting import pause

SECRET, OTHER_SECRET = ("whsec_" + base64.b64encode(bytes([byte]) * 32).decode() for byte in (7, 8))
SOON = ["300ms"]


async def subscribe(topic: Topic, receiver: Receiver, *, expect: int = 200, **fields: Any) -> Json:
    wanted = {"url": receiver.url, "secret": SECRET, "backoff": SOON, **fields}
    put: Json = await topic.call("PUT", "/subscription", wanted, expect=expect)
    return put


async def subscription_of(topic: Topic) -> Json:
    subscription: Json = await topic.call("GET", "/subscription")
    return subscription


async def until_subscription(topic: Topic, **wanted: Any) -> Json:
    """Reads the subscription until it has these fields."""
    while not wanted.items() <= (subscription := await subscription_of(topic)).items():
        await pause()
    return subscription


def attempts(calls: list[Received]) -> list[str]:
    return [call.headers["x-delay-attempt"] for call in calls]
