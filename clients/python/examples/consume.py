"""Consumes a topic with asyncio until SIGTERM or Ctrl-C, and lets running handlers end.

python consume.py http://127.0.0.1:8080 orders
"""

from __future__ import annotations

import asyncio
import signal
import sys
from datetime import timedelta

from delaybridge_client import Client, Delivery, Late


async def handle(delivery: Delivery) -> None:
    """Handles one message. If this function returns, the message is acked. If it raises an error, the message is
    nacked, and comes again after the topic's back-off."""
    print("order", delivery.body, "attempt", delivery.attempts, flush=True)
    if delivery.body == "later":
        await delivery.nack(delay=timedelta(hours=1), reason="not before noon")


def late(report: Late) -> None:
    """The lease had ended before the message was settled: it is delivered again."""
    print("late", report.message.id, report.why, flush=True)


async def main(url: str, topic: str) -> None:
    async with Client(url) as client:
        consumer = client.consumer(topic, concurrency=20, lease=timedelta(seconds=30), on_late=late)
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, consumer.stop)
        await consumer.run(handle)
    print("stopped", consumer.counts, flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
