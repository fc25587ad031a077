"""Connects to the broker for one piece of work."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from ssl import SSLContext

import aio_pika
from aio_pika.abc import AbstractConnection
from aio_pika.exceptions import AMQPError, ProbableAuthenticationError
from aiormq.exceptions import AuthenticationError, InvalidFrameError

from topology.errors import ConnectionFailed, LoginRefused, VhostRefused

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
        raise refusal(error) from error


def refusal(error: AMQPError) -> ConnectionFailed:
    """Returns the error of this package for an error of the AMQP library."""
    if isinstance(error, AuthenticationError | ProbableAuthenticationError):
        return LoginRefused(f"the user or the password is wrong: {error}")
    if isinstance(error, InvalidFrameError) and "Connection.OpenOk" in str(error):
        # RabbitMQ has closed the connection in place of opening it, and the library does not keep the reason.
        return VhostRefused("the virtual host does not exist, or the user has no rights in it")
    return ConnectionFailed(f"{type(error).__name__}: {error}")
