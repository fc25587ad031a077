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


async def test_token_without_the_target_moves_the_message_and_does_not_change_its_content(
    client: httpx2.AsyncClient, mint: Mint
) -> None:
    namespace = f"n-{uuid4().hex[:8]}"
    path = f"/v1/topics/{namespace}%2Forders/messages"
    listing = await mint.make("send", namespaces=(namespace,), targets=("shop.eu",))
    without = await mint.make("send", "admin", namespaces=(namespace,))
    sent = await client.post(path, headers=listing, json={"id": "m-1", "body": 1, "delay": "1h", "to": TO})
    assert sent.status_code == 201
    for content in ({"body": 2}, {"headers": {"a": "b"}}, {"content_type": "text/plain"}):
        refused = await client.patch(f"{path}/m-1", headers=without, json=content)
        assert (refused.status_code, "'shop.eu'" in refused.json()["detail"]) == (403, True)
    moved = await client.patch(f"{path}/m-1", headers=without, json={"delay": "2h"})
    assert (moved.status_code, moved.json()["body"], moved.json()["to"]) == (200, 1, TO)


async def test_token_makes_and_triggers_schedules_of_the_targets_that_it_lists(
    client: httpx2.AsyncClient, mint: Mint
) -> None:
    namespace = f"n-{uuid4().hex[:8]}"
    path = f"/v1/schedules/{namespace}"
    wanted = {"cron": "0 0 1 1 *", "topic": f"{namespace}/orders", "message": {"body": 1, "to": TO}}
    span = {"from": "2026-01-01T00:00:00Z", "to": "2026-01-01T00:00:00Z"}
    without = await mint.make("send", "admin", namespaces=(namespace,))
    listing = await mint.make("send", "admin", namespaces=(namespace,), targets=("shop.*",))

    assert (await client.put(path, headers=without, json=wanted)).status_code == 403
    assert (await client.put(path, headers=listing, json=wanted)).status_code == 201
    for action, body in (("trigger", None), ("backfill", span)):
        refused = await client.post(f"{path}/{action}", headers=without, json=body)
        assert (refused.status_code, "'shop.eu'" in refused.json()["detail"]) == (403, True)
    assert (await client.post(f"{path}/trigger", headers=listing)).status_code == 200
    assert (await client.post(f"{path}/pause", headers=without)).status_code == 200
    assert (await client.delete(path, headers=without)).status_code == 200


async def test_token_for_every_topic_has_no_target_either(client: httpx2.AsyncClient, mint: Mint) -> None:
    namespace = f"n-{uuid4().hex[:8]}"
    headers = await mint.make("send", "admin")
    sent = await client.post(f"/v1/topics/{namespace}%2Forders/messages", headers=headers, json={"body": 1, "to": TO})
    assert sent.status_code == 403
