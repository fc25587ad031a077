"""Tests that every request is counted with its operation and status, whichever way it takes."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest

from bridge.metrics.registry import REGISTRY
from bridge.model.values import Sent

FOREIGN = {"Host": "elsewhere.example"}


def answered(operation: str, code: int) -> float:
    labels = {"operation": operation, "code": str(code)}
    return REGISTRY.get_sample_value("delaybridge_http_requests_total", labels) or 0


def timed(operation: str) -> float:
    return REGISTRY.get_sample_value("delaybridge_http_request_seconds_count", {"operation": operation}) or 0


@pytest.mark.parametrize(
    ("request_line", "headers", "operation", "code"),
    [
        ("POST /v1/topics/orders/messages", FOREIGN, "send", 403),
        ("POST /v1/namespaces/shop/topics/orders/pull", FOREIGN, "pull", 403),
        ("GET /v1/namespaces/shop/topics/orders/messages", FOREIGN, "list_messages", 403),
        ("GET /v1/topics/or%20ders", {}, "look_at_topic", 422),
        ("GET /health/live", {}, "live", 200),
        ("POST /camellia/delayQueue/sendMsg", FOREIGN, "camellia", 403),
        ("POST /push", FOREIGN, "ouqiang", 403),
        ("POST /topic/orders/job", FOREIGN, "changsongl", 403),
        ("POST /youzan", FOREIGN, "youzan", 403),
        ("POST /delay/task/add", FOREIGN, "tasks", 403),
        ("GET /api/shop/q/size", FOREIGN, "lmstfy", 403),
        ("GET /nothing", {}, "other", 404),
    ],
)
async def test_request_is_counted_with_its_operation_and_status(
    client: httpx2.AsyncClient, request_line: str, headers: dict[str, str], operation: str, code: int
) -> None:
    counted, seconds = answered(operation, code), timed(operation)

    answer = await client.request(*request_line.split(), headers=headers)

    assert answer.status_code == code, answer.text
    assert (answered(operation, code), timed(operation)) == (counted + 1, seconds + 1)


async def test_answer_and_unforeseen_error_are_counted(client: httpx2.AsyncClient, service: Any) -> None:
    before = {code: answered("send", code) for code in (201, 500)}
    for answer in (Sent(message=service.message(), replayed=False), ZeroDivisionError()):
        service.answers["upserting.send"] = answer
        await client.post("/v1/topics/orders/messages", json={"body": 1})

    assert {code: answered("send", code) - before[code] for code in (201, 500)} == {201: 1, 500: 1}
