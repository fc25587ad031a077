"""Connects to the broker for one piece of work."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from ssl import SSLContext
from typing import Any, cast

import aio_pika
import aiormq
from aio_pika.abc import AbstractConnection
from aio_pika.exceptions import (
    AMQPConnectionError,
    AMQPError,
    AuthenticationError,
    ChannelInvalidStateError,
    InvalidFrameError,
    ProbableAuthenticationError,
)

from topology.errors import ConnectionFailed, LoginRefused, VhostRefused

# How many frames of a connection may wait to be written. aiormq 7.2 has room for 10. Without room it drops the Close-Ok
# of a channel that the broker closed. For the broker that channel is then open, and the next use of its number ends the
# connection (504, second 'channel.open' seen). Each of 65,535 channels has at most a call and a Close-Ok.
aiormq.Connection.FRAME_BUFFER_SIZE = 2 * 65_535


@dataclass(frozen=True, slots=True)
class PikaConnection:
    """A connection of aio-pika, for one piece of work."""

    raw: AbstractConnection
    url: str = field(repr=False)  # has the password
    tls: SSLContext | None

    @property
    def server_properties(self) -> Mapping[str, Any]:
        """The server properties that RabbitMQ sent when the connection was opened."""
        return self._below.server_properties

    async def open_channel(self, *, confirms: bool = False) -> aiormq.Channel:
        """Opens a channel of aiormq. With `confirms` a publish waits for the publisher confirm, and raises if the
        broker refuses the message or returns it as unroutable.

        A robust channel of aio-pika would declare again the objects that an operator deleted.
        """
        try:
            channel = await self._below.channel(publisher_confirms=confirms, on_return_raises=confirms)
        except RuntimeError as error:
            # aiormq raises only this error for a connection that was lost a moment ago.
            raise ChannelInvalidStateError(str(error)) from error
        return cast(aiormq.Channel, channel)  # which has `rpc`

    @property
    def _below(self) -> aiormq.abc.AbstractConnection:
        if self.raw.transport is None:
            raise ChannelInvalidStateError("the connection is closed")
        return self.raw.transport.connection


async def connect(url: str, *, tls: SSLContext | None, timeout_s: float | None = None) -> PikaConnection:
    """Opens and returns a connection to RabbitMQ, which the caller closes. `tls`: used for an `amqps` URL. `timeout_s`
    None: no limit.

    Raises:
        AMQPError: RabbitMQ refused the connection.
        OSError, TimeoutError: the server can't be reached.
    """
    try:
        raw = await aio_pika.connect(url, timeout=timeout_s, ssl_context=tls)
    except StopAsyncIteration as error:
        raise AMQPConnectionError("the server closed the connection before its first frame") from error
    return PikaConnection(raw, url, tls)


@asynccontextmanager
async def connected(url: str, *, timeout_s: float, tls: SSLContext) -> AsyncIterator[PikaConnection]:
    """Yields a connection to RabbitMQ, and closes it at the end of the context.

    Raises:
        ConnectionFailed: RabbitMQ refused the connection, or a call over it.
        OSError, TimeoutError: the server cannot be reached.
    """
    try:
        connection = await connect(url, timeout_s=timeout_s, tls=tls)
        async with connection.raw:
            yield connection
    except AMQPError as error:
        raise refusal(error) from error


@asynccontextmanager
async def losses_raised() -> AsyncIterator[None]:
    """Raises `ConnectionFailed` if the connection is lost within the context. Without this context, aiormq cancels the
    call or raises a plain `Exception`, and no `AMQPError`."""
    try:
        yield
    except asyncio.CancelledError:
        if (task := asyncio.current_task()) is None or task.cancelling():
            raise
        # Nobody has cancelled this task: aiormq cancels the calls that wait for a connection that is lost.
        raise ConnectionFailed("the connection to RabbitMQ was lost") from None
    except Exception as error:
        # aiormq sets a plain Exception on the futures of a connection that was lost for an unknown reason.
        if type(error) is not Exception:
            raise
        raise ConnectionFailed("the connection to RabbitMQ was lost") from error


def refusal(error: AMQPError) -> ConnectionFailed:
    """Converts an error of the AMQP library to `ConnectionFailed`, or to its subclass for a refused login or virtual
    host."""
    if isinstance(error, AuthenticationError | ProbableAuthenticationError):
        return LoginRefused(f"the user or the password is wrong: {error}")
    if isinstance(error, InvalidFrameError) and "Connection.OpenOk" in str(error):
        # RabbitMQ has closed the connection in place of opening it, and the library does not keep the reason.
        return VhostRefused("the virtual host does not exist, or the user has no rights in it")
    return ConnectionFailed(f"{type(error).__name__}: {error}")
