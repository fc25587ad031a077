"""Tests that each line of a call's log names its request, and the access log of a running bridge."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import aio_pika
import httpx2
import pytest

from bridge.local.rabbitmq import RabbitNode
from bridge.store.client import Store
from bridge.store.keys import Keys
from tests.access.conftest import Mint, bearer, id_of
from tests.forked_bridge import ForkedBridge
from tests.logged import lines, until_logged


async def test_line_deep_in_a_call_names_its_request(
    clients: list[httpx2.AsyncClient], guarded: list[ForkedBridge], rabbit: RabbitNode, mint: Mint
) -> None:
    """The queue of the topic has other arguments than the bridge gives it, which a declare within the send finds."""
    topic, given = f"t-{uuid4().hex[:12]}", f"of-the-client-{uuid4().hex}"
    async with await aio_pika.connect(rabbit.amqp_url) as connection, connection.channel() as channel:
        arguments: dict[str, Any] = {"x-queue-type": "quorum", "x-max-length": 1_000_000}
        await channel.declare_queue(f"ready.{topic}", durable=True, arguments=arguments)
        send = {"body": 1, "delay": "1h"}
        headers = {**(await mint.make("send")), "X-Request-ID": given}
        sent = await clients[1].post(f"/v1/topics/{topic}/messages", json=send, headers=headers)
        await channel.queue_delete(f"ready.{topic}")
    assert (sent.status_code, sent.headers["x-request-id"]) == (201, given)
    assert topic in (await until_logged(guarded[1], "topology.conflict", request_id=given))["detail"]


async def test_access_log_has_one_line_for_each_request(
    clients: list[httpx2.AsyncClient], guarded: list[ForkedBridge], mint: Mint
) -> None:
    owner = await mint.make("send", bare_topics=True)
    topic = f"/v1/topics/t-{uuid4().hex[:12]}"
    body, secret = uuid4().hex, uuid4().hex
    unknown = "dbt_0123456789ab_" + "0" * 64
    asked = [
        ("POST", f"{topic}/messages", owner, 201, id_of(owner)),  # on the fast path
        ("GET", f"{topic}/messages", owner, 200, id_of(owner)),
        ("GET", f"{topic}%2Fx/messages", owner, 403, id_of(owner)),
        ("GET", f"{topic}/messages", bearer(unknown), 401, None),
        ("GET", f"/nothing/{unknown}", {}, 404, None),
        ("GET", "/health/live", {}, 200, None),
    ]
    for method, path, header, status, token in asked:
        sent = {"body": body, "delay": "1h"} if method == "POST" else None
        query = "" if method == "POST" else f"?token={secret}"  # as lmstfy's clients may give it
        answers = [await client.request(method, path + query, json=sent, headers=header) for client in clients]
        assert answers[0].status_code in {status, 422}, answers[0].text
        line = await until_logged(guarded[0], "http.request", request_id=answers[0].headers["x-request-id"])
        assert line["took_ms"] > 0
        assert (line["method"], line["status"], line["token"]) == (method, answers[0].status_code, token)
        assert line["path"] == path.replace("_" + "0" * 64, "_...").replace("%2F", "/")
        assert line["bytes"] == len(answers[0].content)
    written = guarded[0].log_file.read_text()
    assert [one for one in (body, secret, "0" * 64, owner["Authorization"].split("_")[2]) if one in written] == []
    assert lines(guarded[1], "http.request") == []


@pytest.mark.expects_log("Exception in ASGI application")
@pytest.mark.expects_log("http.500")
async def test_traceback_of_a_fault_names_its_request(
    client: httpx2.AsyncClient, guarded: list[ForkedBridge], store: Store, mint: Mint
) -> None:
    topic = f"t-{uuid4().hex[:12]}"
    headers = await mint.make("send", "look")
    send = {"id": "it", "body": "x" * 900, "delay": "1h"}
    (await client.post(f"/v1/topics/{topic}/messages", json=send, headers=headers)).raise_for_status()
    _, envelope = Keys("delay").record(topic, "it")[:2]
    await store.command("SET", envelope, b"no envelope\n")
    answer = await client.get(f"/v1/topics/{topic}/messages/it", headers=headers)
    problem = answer.json()
    assert (answer.status_code, "the line of its log with this request_id" in problem["detail"]) == (500, True)
    fault = await until_logged(guarded[0], "Exception in ASGI application\n", request_id=problem["request_id"])
    assert "JSONDecodeError" in fault["exception"]
