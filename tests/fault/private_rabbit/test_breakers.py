"""Tests that only the first call waits for a frozen server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import httpx2
import pytest
import pytest_asyncio

from tests.fault.api import Api
from tests.fault.private_rabbit.test_outages import (
    CLOSED,
    OPEN,
    Outage,
    breaker,
    rabbit_frozen,
    redis_frozen,
)
from tests.fault.stage import Stage, started
from tests.forked_bridge import ForkedBridge
from tests.waiting import pause

SERVERS = {"store": "Redis", "broker": "RabbitMQ"}
LONGER_THAN_DEFAULT_S = 2.5  # the default time limit is 1.9 s
TRIES = 10


@pytest_asyncio.fixture(scope="module")
async def bridge(stage: Stage) -> AsyncIterator[ForkedBridge]:
    bridge = stage.bridge()
    await started(bridge)
    yield bridge
    bridge.kill()


async def refused_send(api: Api, topic: str, number: int) -> str:
    """Sends once; returns the reason of the refusal."""
    response = await api.send(topic, f"refused-{number}", delay=100)
    assert response.status_code == 503, response.text
    reason: str = response.json()["detail"]
    return reason


@pytest.mark.parametrize(("outage", "part"), [(redis_frozen, "store"), (rabbit_frozen, "broker")])
async def test_calls_after_a_time_out_of_a_frozen_server_are_refused_at_once(
    stage: Stage, bridge: ForkedBridge, http: httpx2.AsyncClient, outage: Outage, part: str
) -> None:
    api, topic = Api(http, bridge.url), outage.__name__
    await api.sent(topic, "before")
    async with outage(stage):
        await refused_send(api, topic, 0)
        refusal = " did not answer in time; asked again in "
        # The first of these calls is refused by the breaker, unless a slow test let another probe begin.
        for number in range(1, TRIES):
            reason = await refused_send(api, topic, number)
            if reason.startswith(SERVERS[part]) and refusal in reason:
                break
        else:
            pytest.fail(f"not refused by the breaker: {reason}")
        # Loops ask too. While a probe of theirs is under way, the breaker is half open for up to a second and a half.
        while await breaker(api, part) != OPEN:
            await pause()
        while refusal not in (await api.call("GET", "/health/ready")).json()["parts"][part]:
            await pause()
    await api.sent(topic, "after")
    # The loops have a breaker of their own for Redis, which closes with their next call.
    while await breaker(api, part) != CLOSED:
        await pause()
    assert {"before", "after"} <= {one["id"] for one in await api.drain(topic, 2)}
    await api.insist("GET", "/health/ready")


@pytest.mark.parametrize("outage", [redis_frozen, rabbit_frozen])
async def test_bridge_with_long_timeouts_waits_for_a_frozen_server(
    stage: Stage, http: httpx2.AsyncClient, outage: Outage
) -> None:
    patient = stage.bridge(store_timeout="60s", broker_timeout="60s")
    await started(patient)
    api, topic = Api(http, patient.url), f"patient-{outage.__name__}"
    await api.sent(topic, "before")
    await api.drain(topic, 1)
    async with outage(stage):
        send, pull = asyncio.create_task(api.send(topic, "it")), asyncio.create_task(api.pull(topic))
        answered, _ = await asyncio.wait(
            (send, pull), timeout=LONGER_THAN_DEFAULT_S, return_when=asyncio.FIRST_COMPLETED
        )
        assert not answered
    assert (await send).status_code == 201
    await pull
    assert api.refused == 0
    patient.kill()
