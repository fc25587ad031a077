"""Does one round of load: calls of every kind at an even pace, and then the end of every message."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from random import Random
from typing import Final

from benchmarks.loops import together
from tests.soak import letters, messages, wires
from tests.soak.calls import Calls, at, calling
from tests.soak.consumers import consuming, pull
from tests.soak.stage import Stage
from tests.soak.topics import CONSUMED, PASSING, STAYING
from tests.torture.amqp import Publisher
from tests.torture.producers import paced

Work = Callable[[Calls, int], Awaitable[None]]

SHARES: Final[Mapping[Work, int]] = {
    messages.now: 20,
    messages.later: 30,
    messages.batch: 8,
    messages.twice: 8,
    messages.refused: 4,
    messages.looked: 6,
    messages.moved: 6,
    messages.deleted: 8,
    messages.expires: 4,
    messages.left: 3,
    messages.unknown: 2,
    letters.dead: 4,
    letters.passing: 2,
    letters.called: 1,
    wires.lmstfy: 3,
    wires.camellia: 1,
    wires.ouqiang: 2,
}
"""How often each call is made, in proportion."""
_BY_KEY: Final = 0.1  # messages over AMQP for each other call
_LIVE: Final = ("waiting", "ready", "leased", "dead")


async def load(stage: Stage, mark: str, *, calls_per_s: float, seconds: float, seed: int) -> int:
    """Does a round, and returns how often the bridge asked to try again. The seed decides which calls it makes.

    Raises:
        WrongAnswer
    """
    random = Random(seed)
    publisher = Publisher(stage.rabbit.amqp_url)
    works, shares = list(SHARES), list(SHARES.values())
    stop = asyncio.Event()
    async with calling(stage.bridge.url, mark, random) as calls:
        await _each_first(calls)

        async def call(number: int) -> None:
            (work,) = random.choices(works, shares)
            await work(calls, number)

        async def publish(number: int) -> None:
            delay_ms = random.randrange(0, messages.LONGEST_MS, 100)
            await publisher.publish(CONSUMED, f"key-{mark}-{number}", delay_ms)

        async with consuming(stage.rabbit.amqp_url, random), together() as group:
            puller = group.create_task(pull(calls))
            paces = [paced(call, calls_per_s, stop), paced(publish, calls_per_s * _BY_KEY, stop)]
            working = [group.create_task(pace) for pace in paces]
            await asyncio.sleep(seconds)
            stop.set()
            await asyncio.wait(working)
            puller.cancel()
            await end_all(calls)
        await publisher.close()
        return len(calls.busy)


async def _each_first(calls: Calls) -> None:
    """Makes a letter in each topic, and each call with an odd and an even number.

    A topic's dead queue comes with its first letter, and the series of an operation with its first call. If chance
    brought them, the second round could meet one that the first did not.
    """
    for topic in STAYING:
        await calls.ask("PUT", at(topic), {"backoff": ["200ms"]})
        await letters.buried(calls, topic)
    twice = [work for work in SHARES for _ in range(2)]
    await asyncio.gather(*(work(calls, -number) for number, work in enumerate(twice, start=1)))


async def end_all(calls: Calls) -> None:
    """Takes and acknowledges messages of all topics, and drops all dead letters, until no message lives."""
    ghosts = True  # in ready queues: the next pull drops the copies of messages that were ended by their ids
    while True:
        topics = (await calls.ask("GET", "/v1/topics"))["topics"]
        # A call that was answered 5xx may have taken effect after the removal of its topic.
        late = [one["topic"] for one in topics if calls.busy and one["topic"].startswith(PASSING)]
        if late:
            await asyncio.gather(*(letters.remove(calls, name) for name in late))
            continue
        live = [one for one in topics if any(one["counts"][state] for state in _LIVE)]
        if not live and not ghosts:
            return
        ghosts = bool(live)
        await asyncio.gather(*(_end(calls, one["topic"]) for one in live or topics))


async def _end(calls: Calls, topic: str) -> None:
    await calls.ask("DELETE", at(topic, "/dead?max=1000"))
    pulled = await calls.ask("POST", at(topic, "/pull"), {"max": 100, "wait": "1s", "lease": "2s"})
    if pulled["messages"]:
        receipts = [one["receipt"] for one in pulled["messages"]]
        await calls.ask("POST", at(topic, "/ack"), {"receipts": receipts})
