"""Tests that leases live in RabbitMQ and Redis, and in no bridge."""

from __future__ import annotations

import httpx2

from tests.fault.api import Api, instant_ms, now_ms
from tests.fault.stage import Stage, killed, started

LEASE_MS = 15_000


async def test_message_leased_by_one_process_is_settled_by_another(stage: Stage, http: httpx2.AsyncClient) -> None:
    first, second = stage.bridge(), stage.bridge()
    await started(first, second)
    one, other = Api(http, first.url), Api(http, second.url)
    await one.sent("shared", "acked-elsewhere")
    pulled = await one.pull_one("shared")
    assert await other.ack("shared", [pulled["receipt"]]) == ["acked"]
    assert (await one.look("shared", "acked-elsewhere"))["state"] == "acked"
    assert await one.ack("shared", [pulled["receipt"]]) == ["acked"]

    await other.sent("shared", "nacked-elsewhere")
    pulled = await one.pull_one("shared")
    response = await other.insist("POST", "/v1/topics/shared/messages/nacked-elsewhere/nack", {"delay": 100})
    assert response.status_code == 200
    assert (await one.pull_one("shared"))["attempts"] == pulled["attempts"] + 1
    await killed(first, second)


async def test_lease_survives_a_kill_of_every_bridge_and_ends_on_time(stage: Stage, http: httpx2.AsyncClient) -> None:
    bridges = stage.bridge(), stage.bridge()
    await started(*bridges)
    one, other = (Api(http, bridge.url) for bridge in bridges)
    await one.sent("kept", "held")
    await one.sent("kept", "done")
    pulled = {message["id"]: message for message in await one.pull("kept", most=2, lease_ms=LEASE_MS)}
    while len(pulled) < 2:
        pulled |= {message["id"]: message for message in await one.pull("kept", wait_ms=5_000, lease_ms=LEASE_MS)}
    lease_until_ms = instant_ms(pulled["held"]["lease_until"])
    await killed(*bridges)
    await killed(stage.redis)
    await started(stage.redis)
    await started(*bridges)
    assert await other.ack("kept", [pulled["done"]["receipt"]]) == ["acked"]
    again = await other.pull_one("kept")
    assert now_ms() >= lease_until_ms
    assert (again["id"], again["attempts"]) == ("held", 2)
    assert again["receipt"] != pulled["held"]["receipt"]
    # The receipt of the first lease is stale.
    assert await one.ack("kept", [pulled["held"]["receipt"]]) == ["stale"]
    assert await one.ack("kept", [again["receipt"]]) == ["acked"]
    assert await one.drain("kept", 0) == []
    await killed(*bridges)
