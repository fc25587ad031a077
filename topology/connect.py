"""Connects to the broker for one piece of work."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from ssl import SSLContext

import aio_pika
from aio_pika.abc import AbstractConnection
from aio_pika.exceptions import AMQPError

from topology.errors import ConnectionFailed

Connection = AbstractConnection


@asynccontextmanager
async def connected(url: str, *, timeout_s: float, tls: SSLContext) -> AsyncIterator[AbstractConnection]:
    """Yields a connection and closes it at the end.

    Raises:
        ConnectionFailed: RabbitMQ refused the connection, or a call over it.
        OSError, TimeoutError: the server cannot be reached.
    """
    try:
        async with await aio_pika.connect(url, timeout=timeout_s, ssl_context=tls) as connection:
            yield connection
    except AMQPError as error:
        raise ConnectionFailed(f"{type(error).__name__}: {error}") from error
