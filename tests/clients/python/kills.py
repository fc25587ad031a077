"""Kills a consumer with SIGKILL at random moments until it has worked off a topic, and judges every message.

    python -m tests.clients.python.kills http://127.0.0.1:8080 --messages 10000

Exit code 0: each message is acked, and none was delivered more often than `max_retry` + 1.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import sys
import time
from collections import Counter
from dataclasses import dataclass
from datetime import timedelta
from uuid import uuid4

from delaybridge_client import Backoff, Client, Delivery, NewMessage, operations
from tests.waiting import pause

MAX_RETRY = 8
LEASE = timedelta(seconds=2)
CONCURRENCY = 20
_LIFE = (100, 300)  # messages that a consumer begins before it is killed
_BATCH = 1_000


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """`states`: the messages by state. `most`: deliveries of the message that had the most, by the lines that
    consumers wrote, and by the bridge's records."""

    messages: int
    kills: int
    states: dict[str, int]
    delivered: int
    most: int
    most_recorded: int
    seconds: float

    @property
    def kept(self) -> bool:
        return self.states == {"acked": self.messages} and max(self.most, self.most_recorded) <= MAX_RETRY + 1


async def consume(url: str, topic: str) -> None:
    """The consumer that is killed. It writes the id of each delivery before it works on it."""

    dice = random.Random(1)

    async def handle(delivery: Delivery) -> None:
        os.write(1, f"{delivery.id}\n".encode())
        await asyncio.sleep(dice.uniform(0, 0.02))

    async with Client(url) as client:
        await client.consumer(topic, concurrency=CONCURRENCY, lease=LEASE).run(handle)


async def judge(url: str, messages: int, seed: int) -> Outcome:
    """Sends messages, kills their consumers, and returns what became of the messages."""
    dice, begun, deliveries, kills = random.Random(seed), time.monotonic(), Counter[str](), 0
    topic = f"kills-{uuid4().hex[:12]}"
    async with Client(url) as client:
        await client.put_policy(topic, max_retry=MAX_RETRY, backoff=Backoff(steps=(timedelta(),)))
        for first in range(0, messages, _BATCH):
            batch = [NewMessage(number) for number in range(first, min(first + _BATCH, messages))]
            assert all(result.message for result in await client.send_many(topic, batch))
        while (acked := (await client.look_at_topic(topic)).counts["acked"]) < messages:
            # The last consumer is not killed: the messages of the one before come back when their leases end.
            lines = dice.randint(*_LIFE) if messages - acked > CONCURRENCY else None
            all_acked = asyncio.create_task(_all_acked(client, topic, messages))
            kills += await _killed_after(lines, all_acked, (url, "--consume", topic), deliveries)
        states: Counter[str] = Counter()
        most_recorded = 0
        async for message in client.every(operations.list_messages(topic, limit=1_000)):
            states[message.state] += 1
            most_recorded = max(most_recorded, message.attempts)
    return Outcome(
        messages=messages,
        kills=kills,
        states=dict(states),
        delivered=deliveries.total(),
        most=max(deliveries.values()),
        most_recorded=most_recorded,
        seconds=time.monotonic() - begun,
    )


async def _killed_after(
    lines: int | None, all_acked: asyncio.Task[None], arguments: tuple[str, ...], deliveries: Counter[str]
) -> int:
    """Runs a consumer until it has begun this many messages, or until all are acked. Returns 1 if it was killed in its
    work."""
    command = (sys.executable, "-m", "tests.clients.python.kills", *arguments)
    consumer = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    assert consumer.stdout is not None
    seen = 0
    try:
        while (lines is None or seen < lines) and not all_acked.done():
            line = asyncio.create_task(consumer.stdout.readline())
            await asyncio.wait((line, all_acked), return_when=asyncio.FIRST_COMPLETED)
            if not line.done():
                line.cancel()
                break
            deliveries[line.result().decode().strip()] += 1
            seen += 1
    finally:
        all_acked.cancel()
        consumer.kill()
        rest, _ = await consumer.communicate()
    deliveries.update(rest.decode().split())
    return int(lines is not None and seen == lines)


async def _all_acked(client: Client, topic: str, messages: int) -> None:
    while (await client.look_at_topic(topic)).counts["acked"] < messages:
        await pause(0.2)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("url")
    parser.add_argument("--messages", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--consume", metavar="TOPIC", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.consume:
        asyncio.run(consume(given.url, given.consume))
        return 0
    outcome = asyncio.run(judge(given.url, given.messages, given.seed))
    print(outcome)
    return 0 if outcome.kept else 1


if __name__ == "__main__":
    sys.exit(main())
