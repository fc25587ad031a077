"""Subscriptions, as the tests of callbacks make them and look at them."""

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


async def standing(topic: Topic) -> Json:
    found: Json = await topic.call("GET", "/subscription")
    return found


async def until_standing(topic: Topic, **wanted: Any) -> Json:
    """Looks until the subscription stands so; the test's time limit bounds it. A poll of nothing paces it."""
    while not wanted.items() <= (found := await standing(topic)).items():
        await pause()
    return found


def attempts(calls: list[Received]) -> list[str]:
    return [call.headers["x-delay-attempt"] for call in calls]
