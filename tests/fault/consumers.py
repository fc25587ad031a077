"""Consumes messages, notes each delivery, and goes on whatever a test kills."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from itertools import cycle

import aio_pika
from aio_pika.abc import AbstractIncomingMessage
from aio_pika.exceptions import AMQPError, ChannelInvalidStateError

from tests.events import What
from tests.fault.api import Api, instant_ms
from tests.history import History, now_ms
from tests.waiting import pause

_PAUSE_S = 0.1
_LEFT_ALONE = 40  # of this many deliveries one gets no ack the first time; it is redelivered when its lease ends


async def over_http(api: Api, topic: str, history: History, *, lease_ms: int) -> None:
    """Pulls and acknowledges until it is cancelled."""
    seen = 0
    while True:
        asked_ms = now_ms()
        pulled = await api.pull(topic, wait_ms=2_000, lease_ms=lease_ms)
        settled = []
        for one in pulled:
            due_ms, attempt = instant_ms(one["due_at"]), one["attempts"]
            created_ms = instant_ms(one["created_at"])
            history.note(
                one["id"], What.PULLED, due_ms=due_ms, attempt=attempt, asked_ms=asked_ms, created_ms=created_ms
            )
            seen += 1
            if attempt > 1 or seen % _LEFT_ALONE:
                history.note(one["id"], What.ACKING)
                settled.append(one)
            else:
                history.note(one["id"], What.RETURNED, attempt=attempt)
        if settled:
            results = await api.ack(topic, [one["receipt"] for one in settled])
            for one, result in zip(settled, results, strict=True):
                if result == "acked":
                    history.note(one["id"], What.ACKED)


async def over_amqp(urls: str, queue_name: str, history: History) -> None:
    """Consumes for ever, over a new connection when one is lost. `urls`: nodes to try one after the other."""

    async def received(message: AbstractIncomingMessage) -> None:
        message_id, headers = str(message.message_id), message.headers
        due_ms, attempt = int(str(headers["x-delay-due"])), int(str(headers["x-delay-attempt"]))
        history.note(message_id, What.CONSUMED, due_ms=due_ms, attempt=attempt)
        history.note(message_id, What.ACKING)
        with suppress(AMQPError, ChannelInvalidStateError, OSError):  # RabbitMQ then redelivers it
            await message.ack()

    for url in cycle(urls.split(",")):
        try:
            async with await aio_pika.connect(url, timeout=5) as connection:
                gone = asyncio.Event()
                connection.close_callbacks.add(lambda *_, gone=gone: gone.set())
                channel = await connection.channel()
                await channel.set_qos(prefetch_count=100)
                queue = await channel.get_queue(queue_name)
                await queue.consume(received)
                await gone.wait()
        except (AMQPError, ChannelInvalidStateError, OSError, TimeoutError):
            pass
        await pause(_PAUSE_S)


async def ended(*tasks: asyncio.Task[None]) -> None:
    """Cancels tasks, and waits until all have ended.

    A connection that is still closing when its broker is killed never closes.
    """
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    for task in tasks:
        if not task.cancelled():
            task.result()
