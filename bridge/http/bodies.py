"""Reads the body of a request whole."""

from __future__ import annotations

from io import BytesIO

from starlette.requests import ClientDisconnect
from starlette.types import Receive


async def body_of(receive: Receive) -> bytes:
    """Returns the whole body of a request. Nobody may have read a part of it before.

    Joins the parts as they come. A list of all parts would take twice the memory of the body, because the allocator
    keeps the memory of each small part.

    Raises:
        ClientDisconnect: the client closed the connection.
    """
    message = await receive()
    # uvicorn hands over nearly every body as one message.
    if message["type"] == "http.request" and not message.get("more_body"):
        whole: bytes = message.get("body", b"")
        return whole
    body = BytesIO()
    while message["type"] == "http.request":
        body.write(message.get("body", b""))
        if not message.get("more_body"):
            return body.getvalue()
        message = await receive()
    raise ClientDisconnect
