"""Counts the requests that FastAPI's application answers, by operation and status. Answers calls that the server has
cancelled."""

from __future__ import annotations

from asyncio import CancelledError, current_task
from time import monotonic
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bridge.http import problems, request_id
from bridge.metrics.http import OTHER, requests
from bridge.model.errors import Stopping

_WIRES: Final = "bridge.http.wires."


async def counted(app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
    """Lets `app` answer, and counts the answer. If the server cancels the call (`was_cut`), answers with 503 instead of
    `app`. Does not count a request whose client has gone before its answer."""
    if scope["type"] != "http":
        await app(scope, receive, send)
        return
    code = 0

    async def send_noted(message: Message) -> None:
        nonlocal code
        if message["type"] == "http.response.start":
            code = message["status"]
        await send(message)

    began_s = monotonic()
    try:
        await app(scope, receive, send_noted)
    except CancelledError:
        if code or not was_cut():
            raise
        await respond(send_noted, problems.answer(Request(scope), Stopping()), request_id.of(scope).encode())
    finally:
        if code:
            requests(_operation(scope)).answered(code, monotonic() - began_s)


def was_cut() -> bool:
    """Returns whether the server has cancelled the current task. uvicorn does so once the grace period after SIGTERM
    has passed. If so, this function takes the cancellation back, so that the task can still answer its call."""
    task = current_task()
    if task is None or not task.cancelling():
        return False
    task.uncancel()
    return True


async def respond(send: Send, response: Response, identity: bytes) -> None:
    """Sends the whole response. `identity`: the request's id, for the header `X-Request-ID`."""
    headers = [*response.raw_headers, (request_id.HEADER, identity)]
    await send({"type": "http.response.start", "status": response.status_code, "headers": headers})
    await send({"type": "http.response.body", "body": response.body})


def _operation(scope: Scope) -> str:
    """Returns the label of the operation that answered: the name of the API's operation, or the name of the wire."""
    if "operation" in scope:
        return str(scope["operation"])
    module = getattr(scope.get("endpoint"), "__module__", "")
    return module.removesuffix(".wire").rpartition(".")[2] if module.startswith(_WIRES) else OTHER
