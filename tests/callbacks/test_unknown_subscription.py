"""Tests that a process calls no receiver while it can't know whether the subscription still counts."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from bridge.loops.callbacks.delivery import Delivery
from bridge.model.errors import StoreUnavailable
from bridge.service.topics.subscriptions import Subscription


class Away:
    """Subscriptions in a Redis that is away, and settlements, which are noted."""

    def __init__(self) -> None:
        self.given_back: list[tuple[Any, dict[str, Any]]] = []

    async def is_current(self, _: Subscription) -> bool:
        raise StoreUnavailable("away")

    async def nack_leased(self, leased: Any, **terms: Any) -> None:
        self.given_back.append((leased, terms))


async def test_message_is_requeued_uncounted_and_the_worker_goes_on_while_redis_is_away() -> None:
    away, stopping = cast("Any", Away()), asyncio.Event()
    none = cast("Any", None)  # neither asked for a receiver nor called
    delivery = Delivery(
        Subscription(topic="orders", url="https://hooks.example.com/"),
        settling=away,
        subscriptions=away,
        destinations=none,
        client=none,
        clock=none,
        stopping=stopping,
        queue="ready.orders",
        tracing=None,
    )
    leased = cast("Any", _Leased())
    await delivery.deliver(leased)
    assert away.given_back == [(leased, {"delay_ms": 0, "reason": None, "counted": False})]
    assert not stopping.is_set()


class _Leased:
    message = None
