"""Tests that the overview stays live while a server is frozen: it shows what falls due meanwhile."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest

from tests.fault.api import Api, instant_ms
from tests.fault.private_rabbit.test_outages import Outage, rabbit_frozen, redis_frozen
from tests.fault.stage import Stage, started
from tests.waiting import pause

FALLING_DUE = 120
LONG = {"broker_timeout": "3s", "store_timeout": "3s"}
"""Time limits longer than the pause between two samples. So no breaker is open when the first sample begins."""


async def next_sample(api: Api, at: str) -> tuple[dict[str, Any], float]:
    """Asks until the overview has a sample after that of the moment `at`. Returns it, and the seconds of the request
    that made it."""
    while True:
        answer = await api.call("GET", "/v1/overview")
        assert answer.status_code == 200, answer.text
        shown: dict[str, Any] = answer.json()
        if shown["at"] != at:
            return shown, answer.elapsed.total_seconds()
        await pause()


@pytest.mark.parametrize("outage", [rabbit_frozen, redis_frozen])
async def test_wait_for_a_frozen_server_does_not_delay_the_next_sample(
    stage: Stage, http: httpx2.AsyncClient, outage: Outage
) -> None:
    bridge = stage.bridge(**LONG)
    await started(bridge)
    api = Api(http, bridge.url)
    messages = [{"body": number, "delay": 1_000 * number} for number in range(1, FALLING_DUE + 1)]
    sent = await api.call("POST", "/v1/topics/one/messages/batch", {"messages": messages})
    assert sent.status_code == 200, sent.text
    before, _ = await next_sample(api, "")
    async with outage(stage):
        first, waited_s = await next_sample(api, before["at"])
        second, _ = await next_sample(api, first["at"])
    # A machine that is busy makes both longer. A rest that counted the wait would be nine times as long.
    assert instant_ms(second["at"]) - instant_ms(first["at"]) < 5_000 * waited_s
    assert second["ok"] is False
    if outage is rabbit_frozen:
        assert second["due"]["overdue"] > first["due"]["overdue"]
        assert second["oldest_overdue_ms"] > first["oldest_overdue_ms"]
    else:
        assert second["missing"] == ["default"]
    bridge.kill()
