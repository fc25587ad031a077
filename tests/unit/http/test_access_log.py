"""Tests the line of the access log for requests that end in other ways than by an answer."""

from __future__ import annotations

from typing import Any

import pytest
from structlog.testing import capture_logs

from bridge.http.scope_keys import LOGGED_PATH, TOKEN_ID
from bridge.http.server.access_log import AccessLog

SCOPE = {"type": "http", "method": "GET", "path": "/v1/topics"}


async def logged(app: Any, **scope: Any) -> list[Any]:
    async def nothing(*_: Any) -> Any:
        return {"type": "http.request"}

    with capture_logs() as lines:
        try:
            await AccessLog(app)({**SCOPE, **scope}, nothing, nothing)
        except ZeroDivisionError:
            lines.append({"event": "raised"})
    return [{name: value for name, value in line.items() if name != "took_ms"} for line in lines]


def line(**changed: Any) -> dict[str, Any]:
    usual = {"method": "GET", "path": "/v1/topics", "status": 200, "bytes": 0, "token": None}
    return {"event": "http.request", "log_level": "info", **usual, **changed}


async def test_client_that_left_is_logged_as_such() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None: ...

    assert await logged(app) == [line(status=499)]


@pytest.mark.parametrize(("started", "status"), [(False, 500), (True, 201)])
async def test_fault_is_logged_and_raised(started: bool, status: int) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        if started:
            await send({"type": "http.response.start", "status": 201})
            await send({"type": "http.response.body", "body": b"abc"})
        raise ZeroDivisionError

    assert await logged(app) == [line(status=status, bytes=3 * started), {"event": "raised"}]


@pytest.mark.parametrize(("headers", "before"), [([], [0, 0, 1]), ([(b"content-length", b"3")], [0, 1, 1])])
async def test_line_is_written_before_the_answer_ends(headers: Any, before: list[int]) -> None:
    parts = [("start", b"", True), ("body", b"abc", True), ("body", b"", False)]

    async def app(scope: Any, receive: Any, send: Any) -> None:
        for kind, body, more_body in parts:
            message = {"type": f"http.response.{kind}", "body": body, "more_body": more_body}
            await send({**message, "status": 200, "headers": headers})

    async def receive() -> Any: ...

    async def send(message: Any) -> None:
        logged_before.append(len(lines))

    logged_before: list[int] = []
    with capture_logs() as lines:
        await AccessLog(app)({**SCOPE}, receive, send)
    assert (logged_before, [one["bytes"] for one in lines]) == (before, [3])


async def test_line_has_what_the_application_knows_of_the_request() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        scope[TOKEN_ID], scope[LOGGED_PATH], scope["path"] = "0f4c19a2b7de", "/token/:namespace/:token", "/changed"
        await send({"type": "http.response.start", "status": 200})

    assert await logged(app) == [line(path="/token/:namespace/:token", token="0f4c19a2b7de")]


async def test_long_path_is_cut_and_lifespan_is_not_logged() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None: ...

    (found,) = await logged(app, path="/" + "é" * 5_000)
    assert (len(found["path"]), found["path"][-1]) == (513, "…")
    assert await logged(app, type="lifespan") == []
