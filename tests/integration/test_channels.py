"""Tests that closed channels leave nothing in the process, and that their connection stays open."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
import pytest_asyncio

from bridge.broker.client.connection import BrokerConnection
from bridge.local.rabbitmq import RabbitNode
from bridge.model.breaker import Breaker
from bridge.model.errors import BrokerUnavailable
from topology.channels import look_at_all, plain_channel
from topology.plan import Queue

Use = Callable[[BrokerConnection], Awaitable[None]]


@pytest_asyncio.fixture
async def connection(rabbit: RabbitNode) -> AsyncIterator[BrokerConnection]:
    opened = BrokerConnection(
        [rabbit.amqp_url], purpose="channels", timeout_ms=10_000, check=lambda _: None, breaker=Breaker()
    )
    yield opened
    await opened.drop()


async def _taking(connection: BrokerConnection) -> None:
    await connection.close(await connection.channel())


async def _topology(connection: BrokerConnection) -> None:
    async with plain_channel(await connection.raw_connection()):
        pass


async def test_channels_that_the_broker_closes_leave_their_connection_open(connection: BrokerConnection) -> None:
    raw = await connection.raw_connection()
    missing = [Queue(name=f"missing-{number}", arguments={}) for number in range(100)]
    for _ in range(2):
        together = await asyncio.gather(*(look_at_all(raw, missing) for _ in range(4)))
        assert [found for found in together if any(found.values())] == []
    assert connection.is_open


async def test_channel_of_a_connection_that_is_lost_is_refused_as_unavailable(connection: BrokerConnection) -> None:
    raw = await connection.raw_connection()
    await connection.drop()
    with pytest.raises(BrokerUnavailable):
        async with plain_channel(raw):
            pass


@pytest.mark.parametrize("use", [BrokerConnection.ping, _taking, _topology], ids=["ping", "take", "topology"])
async def test_closed_channel_leaves_nothing_on_its_connection(connection: BrokerConnection, use: Use) -> None:
    await use(connection)
    before = _futures()
    for _ in range(30):
        await use(connection)
    assert _futures() < before + 15


def _futures() -> int:
    """Counts the futures and tasks of the process, also those that have ended and are still referred to."""
    gc.collect()
    return sum(isinstance(one, asyncio.Future) for one in gc.get_objects())
