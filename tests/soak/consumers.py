"""Consumes over HTTP and AMQP during a round: acknowledges most messages, returns some, and leaves some."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random

import aio_pika
from aio_pika.abc import AbstractIncomingMessage

from tests.soak.calls import Calls, at
from tests.soak.topics import CONSUMED, PULLED

_NACKED, _EXTENDED, _LEFT = 0.05, 0.05, 0.03
_REJECTED, _UNTOLD = 0.05, 0.3


async def pull(calls: Calls) -> None:
    """Pulls for ever."""
    while True:
        answer = await calls.ask("POST", at(PULLED, "/pull"), {"max": 10, "wait": "2s", "lease": "2s"})
        receipts = []
        for one in answer["messages"]:
            fate, path = calls.random.random(), at(PULLED, f"/messages/{one['id']}")
            if fate < _NACKED:
                await calls.ask(
                    "POST", f"{path}/nack", {"receipt": one["receipt"], "delay": 300}, expect=(200, 404, 409)
                )
            elif fate < _NACKED + _EXTENDED:
                await calls.ask(
                    "POST", f"{path}/extend", {"receipt": one["receipt"], "lease": "3s"}, expect=(200, 404, 409)
                )
            elif fate > _NACKED + _EXTENDED + _LEFT:
                receipts.append(one["receipt"])
        if receipts:
            await calls.ask("POST", at(PULLED, "/ack"), {"receipts": receipts})


@asynccontextmanager
async def consuming(url: str, random: Random) -> AsyncIterator[None]:
    """Consumes over AMQP until the context ends. Some acks are recorded at the bridge, and of others it never hears."""
    async with await aio_pika.connect(url) as connection:
        channel = await connection.channel()
        await channel.set_qos(prefetch_count=50)
        acks = await channel.get_exchange("delay.done", ensure=False)
        queue = await channel.get_queue(f"ready.{CONSUMED}", ensure=False)

        async def received(message: AbstractIncomingMessage) -> None:
            fate = random.random()
            if fate < _REJECTED:
                await message.reject(requeue=False)
                return
            if fate > _REJECTED + _UNTOLD:
                await acks.publish(aio_pika.Message(b"", message_id=message.message_id), CONSUMED)
            await message.ack()

        tag = await queue.consume(received)
        yield
        await queue.cancel(tag)
