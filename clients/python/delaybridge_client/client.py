"""Defines the two clients: one for asyncio, one without."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Final

import httpx2

from delaybridge_client.consumer import Consumer, Counts, Late, Terms, consume
from delaybridge_client.methods import Methods
from delaybridge_client.retries import Retries
from delaybridge_client.sender import Sender, Settings, SyncSender
from delaybridge_client.values.message import LeasedMessage

_TIMEOUT: Final = timedelta(seconds=10)
_RETRIES: Final = Retries()


class Client(Methods, Sender):
    """Calls a bridge with asyncio. Use it as `async with Client(url) as client:`, or call `close` at the end."""

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        timeout: timedelta = _TIMEOUT,
        retries: Retries = _RETRIES,
        connections: int = 100,
        ssl_context: ssl.SSLContext | None = None,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        """`Settings` and `Retries` describe the other arguments. `transport`: a transport of httpx2, for proxies and
        tests; None: httpx2's default."""
        settings = Settings(
            url=url,
            token=token,
            timeout=timeout,
            retries=retries,
            connections=connections,
            ssl_context=ssl_context,
        )
        super().__init__(settings, transport)

    def consumer(
        self,
        *topics: str,
        concurrency: int = 10,
        lease: timedelta = timedelta(seconds=30),
        longest: timedelta = timedelta(hours=1),
        poll: timedelta = timedelta(seconds=20),
        drain: timedelta = timedelta(seconds=30),
        on_late: Callable[[Late], None] | None = None,
    ) -> Consumer:
        """Makes a consumer of these topics, the most urgent first. `Terms` describes the other arguments. `on_late`:
        called for each message whose lease ended before it was settled."""
        terms = Terms(topics=topics, concurrency=concurrency, lease=lease, longest=longest, poll=poll, drain=drain)
        return Consumer(self, terms, on_late=on_late)


class SyncClient(Methods, SyncSender):
    """Calls a bridge without asyncio. Use it as `with SyncClient(url) as client:`. Threads may share it."""

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        timeout: timedelta = _TIMEOUT,
        retries: Retries = _RETRIES,
        connections: int = 100,
        ssl_context: ssl.SSLContext | None = None,
        transport: httpx2.BaseTransport | None = None,
    ) -> None:
        """`Settings` and `Retries` describe the other arguments. `transport`: a transport of httpx2, for proxies and
        tests; None: httpx2's default."""
        settings = Settings(
            url=url,
            token=token,
            timeout=timeout,
            retries=retries,
            connections=connections,
            ssl_context=ssl_context,
        )
        super().__init__(settings, transport)

    def consume(
        self,
        *topics: str,
        handle: Callable[[LeasedMessage], object],
        lease: timedelta = timedelta(seconds=30),
        longest: timedelta = timedelta(hours=1),
        poll: timedelta = timedelta(seconds=20),
        stop: threading.Event | None = None,
        on_late: Callable[[Late], None] | None = None,
    ) -> Counts:
        """Calls `handle` for one message after the other until `stop` is set, and returns the counts.

        `Terms` describes the other arguments. `stop` None: the method never returns. `on_late`: called for each message
        whose lease ended before it was settled. To handle several messages at once, use threads or `Client`.
        """
        terms = Terms(topics=topics, concurrency=1, lease=lease, longest=longest, poll=poll)
        return consume(self, terms, handle, stop or threading.Event(), on_late)
