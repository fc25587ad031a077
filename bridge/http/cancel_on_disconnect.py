"""Cancels work for a client that disconnects before the work is done."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from starlette.types import Receive

T = TypeVar("T")


async def unless_gone(receive: Receive, work: Coroutine[Any, Any, T]) -> T | None:
    """Returns the result of `work`. If the client closes its connection first, cancels `work` and returns None.

    `receive`: the ASGI function `receive` of the request. The caller must have read the request's whole body.
    """
    working, leaving = asyncio.ensure_future(work), asyncio.ensure_future(_gone(receive))
    try:
        await asyncio.wait((working, leaving), return_when=asyncio.FIRST_COMPLETED)
        return working.result() if working.done() else None
    finally:
        working.cancel()
        leaving.cancel()
        await asyncio.wait((working, leaving))


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
