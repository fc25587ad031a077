"""Lets HTTP clients of tests close each connection that they mean to close.

httpcore closes old connections one after another as a request begins or ends. If the task is cancelled meanwhile, the
rest stays open (encode/httpcore#922), and fails a later test in which the garbage collector finds it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import httpcore2
from httpcore2 import AsyncConnectionInterface


def close_all_though_cancelled() -> None:
    """Holds for all pools of this process from now on."""
    httpcore2.AsyncConnectionPool._close_connections = _close_all  # type: ignore[assignment]


async def _close_all(_pool: httpcore2.AsyncConnectionPool, closing: Sequence[AsyncConnectionInterface]) -> None:
    await asyncio.shield(asyncio.gather(*(connection.aclose() for connection in closing)))
