"""Mends two habits of httpcore, which HTTP clients of tests use.

httpcore closes old connections one after another as a request begins or ends. If the task is cancelled meanwhile, the
rest stays open (encode/httpcore#922), and fails a later test in which the garbage collector finds it.

httpx makes a TLS context for each client, also for one that never speaks TLS. To read all authorities takes 25 ms of
CPU, and many tests make a client for each look at a server.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import cache

import httpcore2
from httpcore2 import AsyncConnectionInterface


def close_all_though_cancelled() -> None:
    """Closes each connection that a pool means to close. Holds for all pools of this process from now on."""
    httpcore2.AsyncConnectionPool._close_connections = _close_all  # type: ignore[assignment]


def share_default_trust() -> None:
    """Makes the TLS context once that trusts the system's authorities. All clients of this process share it from now
    on, unless they are given another one."""
    httpcore2.default_ssl_context = cache(httpcore2.default_ssl_context)


async def _close_all(_pool: httpcore2.AsyncConnectionPool, closing: Sequence[AsyncConnectionInterface]) -> None:
    await asyncio.shield(asyncio.gather(*(connection.aclose() for connection in closing)))
