"""Turns the many errors of aio-pika into one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aio_pika.exceptions import AMQPError, ChannelInvalidStateError

from bridge.model.errors import BrokerUnavailable
from topology.connect import losses_raised
from topology.errors import ConnectionFailed


@asynccontextmanager
async def translated(limit_s: float | None = None) -> AsyncIterator[None]:
    """Raises `BrokerUnavailable` for each error that means that RabbitMQ is away, and for a passed time limit."""
    try:
        async with asyncio.timeout(limit_s), losses_raised():
            yield
    except (TimeoutError, AMQPError, ChannelInvalidStateError, ConnectionFailed, OSError, StopAsyncIteration) as error:
        raise BrokerUnavailable(f"RabbitMQ is away or refused: {error}") from error
