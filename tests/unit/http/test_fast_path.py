"""Tests that the fast path answers exactly as the routes behind it do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, cast

import httpx2
import pytest
from starlette.responses import Response

from bridge.http.app import create_app
from bridge.http.server.fast_path import FastPath
from bridge.model.errors import Conflict, StoreUnavailable
from bridge.model.values import AckResult, AckVerdict, Leased, Sent
from bridge.settings.settings import Settings

TOPIC = "/v1/topics/orders"
TOPICS = [TOPIC, "/v1/topics/shop%2Forders", "/v1/namespaces/shop/topics/orders", f"{TOPIC}%20"]


async def by_route(client: httpx2.AsyncClient, path: str, document: bytes, **headers: str) -> httpx2.Response:
    """Sends a body of undeclared size, which the fast path leaves to the routes."""

    async def stream() -> AsyncIterator[bytes]:
        yield document

    return await client.post(path, content=stream(), headers=headers)


@pytest.mark.parametrize(
    ("path", "document"),
    [
        ("/messages", b'{"body":{"order":1001},"delay":"15m"}'),
        ("/messages", b'{"body":1,"headers":{"a":true},"content_type":"application/json"}'),
        ("/messages", b'{"body":1,"delay":"x","unknown":2}'),
        ("/messages", b'{"body":'),
        ("/messages", b""),
        ("/messages", b'{"body":"%s"}' % (b"x" * 2_000)),
        ("/messages/batch", b'{"messages":[{"body":1},{"body":2,"delay":-1},{"body_base64":"AAH/"},7]}'),
        ("/messages/batch", b'{"messages":[]}'),
        ("/pull", b'{"max":2}'),
        ("/pull", b'{"max":0}'),
        ("/pull", b'{"ack":["r"]}'),
        ("/ack", b'{"ids":["o-1001","o-1002"]}'),
        ("/ack", b'{"receipts":["r"]}'),
        ("/ack", b"{}"),
    ],
)
@pytest.mark.parametrize(
    "topic", [TOPIC, "/v1/topics/shop%2Forders", "/v1/namespaces/shop/topics/orders", f"{TOPIC}%20"]
)
async def test_the_fast_path_answers_as_the_route_does(
    service: Any, client: httpx2.AsyncClient, topic: str, path: str, document: bytes
) -> None:
    sent = Sent(message=service.message(), replayed=False)

    async def send_many(drafts: Any, maker: None) -> Any:
        return [sent, Conflict("no", state="dead")][: len(drafts)]

    service.answers |= {
        "upserting.send": sent,
        "upserting.send_many": send_many,
        "pulling.pull": [Leased(message=service.message(body=b"\xff"), receipt="r")],
        "settling.ack_delivered": [AckResult(id="o-1001", verdict=AckVerdict.ACKED)],
        "settling.ack_receipts": [AckResult(id=None, verdict=AckVerdict.UNKNOWN)],
    }
    named = {"X-Request-ID": "mine"}
    short = await client.post(topic + path, content=document, headers=named)
    calls, service.calls[:] = service.calls[:], []
    routed = await by_route(client, topic + path, document, **named)

    assert (short.status_code, short.content, short.headers.raw) == (
        routed.status_code,
        routed.content,
        routed.headers.raw,
    )
    assert short.headers["x-request-id"] == "mine"
    assert calls == service.calls
    assert short.status_code < 500


@pytest.mark.parametrize("error", [StoreUnavailable("away"), RuntimeError("a fault")])
async def test_the_fast_path_answers_an_error_as_the_route_does(
    service: Any, client: httpx2.AsyncClient, error: Exception
) -> None:
    service.answers["upserting.send"] = error
    named = {"X-Request-ID": "mine"}
    short = await client.post(f"{TOPIC}/messages", content=b'{"body":1}', headers=named)
    routed = await by_route(client, f"{TOPIC}/messages", b'{"body":1}', **named)

    assert (short.status_code, short.content) == (routed.status_code, routed.content)
    assert sorted(short.headers.raw) == sorted(routed.headers.raw)


async def test_an_unexpected_error_reaches_the_server_s_log(service: Any, app: Any) -> None:
    service.answers["upserting.send"] = RuntimeError("a fault")
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url="http://localhost") as client:
        with pytest.raises(RuntimeError, match="a fault"):
            await client.post(f"{TOPIC}/messages", json={"body": 1})


async def test_a_call_that_the_server_cancels_is_answered_with_503(service: Any, client: httpx2.AsyncClient) -> None:
    async def send(*_: Any) -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(0)

    service.answers["upserting.send"] = send
    assert (await client.post(f"{TOPIC}/messages", json={"body": 1})).status_code == 503


async def test_a_cancel_that_nobody_asked_for_is_an_error(service: Any, app: Any) -> None:
    async def send(*_: Any) -> None:
        raise asyncio.CancelledError

    service.answers["upserting.send"] = send
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url="http://localhost") as client:
        with pytest.raises(asyncio.CancelledError):
            await client.post(f"{TOPIC}/messages", json={"body": 1})


async def test_the_fast_path_ignores_the_port_of_another_wire(service: Any) -> None:
    service.settings = Settings(max_body=1_000, lmstfy_port=7_778)
    transport = httpx2.ASGITransport(app=create_app(cast(Any, service)))
    async with httpx2.AsyncClient(transport=transport) as client:
        answers = [
            await client.post(f"http://localhost:{port}{TOPIC}/messages", json={"body": 1, "delay": "x"})
            for port in (7_777, 7_778)
        ]
    assert [answer.status_code for answer in answers] == [422, 404]


async def test_the_fast_path_leaves_other_methods_to_the_routes(client: httpx2.AsyncClient) -> None:
    assert (await client.put(f"{TOPIC}/messages", json={"body": 1})).status_code == 405


@pytest.mark.parametrize(("length", "short"), [(200, True), (2_000, False)])
async def test_the_fast_path_ignores_paths_too_long_for_a_topic(length: int, short: bool) -> None:
    took: list[str] = []

    async def handler(call: Any) -> Response:
        took.append("the fast path")
        return Response()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        took.append("the routes")

    async def nothing(*_: Any) -> Any:
        return {"type": "http.request"}

    fast_path = FastPath(app, handlers={("POST", "/messages"): ("send", handler)}, other_ports=())
    raw_path = b"/v1/topics/%b/messages" % (b"a" * length)
    headers = [(b"content-length", b"0")]
    await fast_path({"type": "http", "method": "POST", "raw_path": raw_path, "headers": headers}, nothing, nothing)

    assert took == ["the fast path" if short else "the routes"]
