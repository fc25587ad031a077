"""Tests that a token's messages go to exchanges of other applications only if the token lists them."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import httpx2
import pytest

from tests.access.conftest import Mint

TO = {"exchange": "shop.eu", "routing_key": "new"}


@pytest.mark.parametrize(
    ("targets", "status"),
    [
        ((), 403),
        (("shop",), 403),
        (("shop.us", "stock.*"), 403),
        (("shop.eu",), 201),
        (("shop.*",), 201),
        (("*",), 201),
    ],
)
async def test_token_sends_to_the_exchanges_that_it_lists(
    client: httpx2.AsyncClient, mint: Mint, targets: tuple[str, ...], status: int
) -> None:
    namespace = f"n-{uuid4().hex[:8]}"
    headers = await mint.make("send", namespaces=(namespace,), targets=targets)
    path = f"/v1/topics/{namespace}%2Forders/messages"
    message: dict[str, Any] = {"body": 1, "delay": "1h", "to": TO}

    one = await client.post(path, headers=headers, json=message)
    batch = await client.post(f"{path}/batch", headers=headers, json={"messages": [message, {"body": 2}]})

    assert one.status_code == status
    assert [result["status"] for result in batch.json()["results"]] == [status, 201]
    if status == 403:
        allowed = ", ".join(targets) or "none"
        detail = f"this token may not send to the exchange 'shop.eu'; its targets: {allowed}"
        assert one.json()["detail"] == batch.json()["results"][0]["error"]["detail"] == detail


async def test_token_for_every_topic_has_no_target_either(client: httpx2.AsyncClient, mint: Mint) -> None:
    namespace = f"n-{uuid4().hex[:8]}"
    headers = await mint.make("send", "admin")
    sent = await client.post(f"/v1/topics/{namespace}%2Forders/messages", headers=headers, json={"body": 1, "to": TO})
    assert sent.status_code == 403
