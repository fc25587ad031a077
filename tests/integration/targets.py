"""Declares what the messages with a target go to: an exchange of another application, and its queue."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from uuid import uuid4

from aio_pika import ExchangeType
from aio_pika.abc import AbstractExchange, AbstractQueue

from tests.integration.amqp import Amqp


@dataclass(frozen=True)
class Shop:
    """An exchange and a queue of another application. `bind` makes the exchange lead to the queue."""

    exchange: AbstractExchange
    queue: AbstractQueue

    @property
    def name(self) -> str:
        return self.exchange.name

    async def bind(self, key: str = "#") -> None:
        await self.queue.bind(self.exchange, key)

    async def unbind(self, key: str = "#") -> None:
        await self.queue.unbind(self.exchange, key)

    async def remove(self) -> None:
        await self.exchange.delete(if_unused=False)


@asynccontextmanager
async def opened(amqp: Amqp, *, bound: bool = True) -> AsyncIterator[Shop]:
    async with amqp.connection.channel() as channel:
        name = f"shop-{uuid4().hex[:12]}"
        exchange = await channel.declare_exchange(name, ExchangeType.TOPIC)
        queue = await channel.declare_queue(f"{name}-orders")
        shop = Shop(exchange, queue)
        if bound:
            await shop.bind()
        yield shop
    async with amqp.connection.channel() as channel:
        await channel.queue_delete(f"{name}-orders")
        await channel.exchange_delete(name)
