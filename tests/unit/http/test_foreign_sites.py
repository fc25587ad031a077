"""Tests which calls of an open bridge on loopback refuse pages of other sites."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest

CALLS = {
    "the fast path": ("POST", "/v1/topics/orders/messages"),
    "another operation": ("GET", "/v1/topics"),
    "metrics": ("GET", "/metrics"),
    "camellia": ("POST", "/camellia/delayQueue/sendMsg"),
    "ouqiang": ("POST", "/push"),
    "changsongl": ("POST", "/topic/orders/job"),
    "youzan": ("POST", "/youzan"),
}


@pytest.mark.parametrize(("method", "path"), CALLS.values(), ids=CALLS)
@pytest.mark.parametrize("header", ["Host", "Origin"])
async def test_a_foreign_site_is_refused_before_anything_happens(
    client: httpx2.AsyncClient, service: Any, method: str, path: str, header: str
) -> None:
    answer = await client.request(method, path, headers={header: "http://elsewhere.example"[7 * (header == "Host") :]})

    assert answer.status_code == 403, answer.text
    assert "elsewhere.example" in answer.text
    assert service.calls == []


async def test_health_answers_every_host(client: httpx2.AsyncClient) -> None:
    assert (await client.get("/health/live", headers={"Host": "elsewhere.example"})).status_code == 200
