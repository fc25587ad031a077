"""Counts the requests that pass the application's routes, by operation and status."""

from __future__ import annotations

from time import monotonic
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bridge.metrics.http import OTHER, requests

_WIRES: Final = "bridge.http.wires."


async def counted(app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
    """Lets `app` answer, and counts the answer. Does not count a request whose client has gone before its answer."""
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
    finally:
        if code:
            requests(_operation(scope)).answered(code, monotonic() - began_s)


def _operation(scope: Scope) -> str:
    """Returns the label of the operation that answered: the name of the API's operation, or the name of the wire."""
    if "operation" in scope:
        return str(scope["operation"])
    module = getattr(scope.get("endpoint"), "__module__", "")
    return module.removesuffix(".wire").rpartition(".")[2] if module.startswith(_WIRES) else OTHER
