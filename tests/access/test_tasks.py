"""Tests that the task wire checks scopes and topics as other calls do, and refuses in its own form."""

from __future__ import annotations

from uuid import uuid4

import httpx2
import pytest

from tests.access.conftest import Mint
from tests.access.table import SCOPES, allowed

NEEDS = {"add": "send", "pull": "consume"}


@pytest.mark.parametrize("scope", SCOPES)
async def test_each_scope_allows_its_task_call_on_its_topics(
    client: httpx2.AsyncClient, mint: Mint, scope: str
) -> None:
    namespace = f"n-{uuid4().hex[:12]}"
    own = await mint.make(scope, namespaces=[namespace])
    for name, need in NEEDS.items():
        for topic, is_own in ((f"{namespace}/orders", True), ("other/orders", False)):
            form = {"topic": topic, "timing_moment": "9999999999", "content": "", "task_id": "1"}
            answer = await client.post(f"/delay/task/{name}", data=form, headers=own)
            if is_own and allowed(need, scope):
                assert (answer.status_code, answer.json()["dm_error"]) == (200, {"add": 400, "pull": 404}[name])
            else:
                assert (answer.status_code, answer.json()["dm_error"]) == (403, 403)
                assert answer.json()["error_msg"].startswith("没有权限: this ")


async def test_task_call_without_a_token_is_401(client: httpx2.AsyncClient) -> None:
    answer = await client.post("/delay/task/pull", data={"topic": "orders"})
    assert (answer.status_code, answer.json()["dm_error"]) == (401, 401)
    assert answer.headers["www-authenticate"].startswith("Bearer")
