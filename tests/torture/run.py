"""Does a whole run: load and faults, then a calm time, then the judgement."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from benchmarks.loops import together
from tests.history import History, now_ms
from tests.judging import Verdict, What, judge
from tests.torture import api as http
from tests.torture.amqp import Publisher
from tests.torture.api import Api
from tests.torture.consumers import Puller, Subscriber
from tests.torture.faults import Faults
from tests.torture.plan import Kind, plan
from tests.torture.producers import Producers
from tests.torture.stage import MAX_RETRY, Stage, running

RATE_PER_S = 200.0
PULLED = ("pulled-1", "pulled-2")
CONSUMED = ("consumed-1", "consumed-2")
_PULLERS = 2  # of each topic
_PATIENCE_S = 60.0
_LOOK_S = 2.0
_AFTERWARDS_MS = 3_000  # after the last due moment, in which no message may come


@dataclass(frozen=True, slots=True)
class Outcome:
    verdict: Verdict
    faults: Mapping[Kind, int]
    history: History
    errors: Sequence[str]

    def as_json(self) -> dict[str, Any]:
        return self.verdict.counts() | {"faults": {str(kind): count for kind, count in self.faults.items()}}

    def wrong(self) -> list[str]:
        """Returns every error of a bridge, and the events of every message that broke a promise."""
        messages = [
            f"{name} {message_id}: " + "; ".join(str(event) for event in self.history.of(message_id))
            for name, ids in self.verdict.wrong.items()
            for message_id in ids
        ]
        return [*self.errors, *messages]


async def torture(
    folder: Path, *, minutes: float, seed: int, rate_per_s: float = RATE_PER_S, said: Callable[[str], None]
) -> Outcome:
    """Starts private servers in the folder, and kills them at the end. Calls `said` with lines about the progress.

    Raises:
        LocalError: a server did not start, or did not come back after a fault.
    """
    history = History(MAX_RETRY)
    async with running(folder) as stage, http.opened(stage.http_urls, seed) as api:
        faults = Faults(stage, plan(seed, minutes), said)
        publisher = Publisher(stage.amqp_url)
        producers = Producers(api, publisher, history, PULLED + CONSUMED, rate_per_s=rate_per_s, seed=seed)
        await asyncio.gather(*(producers.first(topic) for topic in PULLED + CONSUMED))
        async with _consuming(stage, api, history, seed):
            await _loaded(producers, faults, minutes)
            await publisher.close()
            said("no more load and no more faults; waiting for what is owed")
            await _until_nothing_owed(api, history)
    return Outcome(history.verdict(), faults.counts, history, stage.errors())


async def _loaded(producers: Producers, faults: Faults, minutes: float) -> None:
    """Returns when the time and the last fault have passed and every send was accepted."""
    stop = asyncio.Event()
    async with together() as group:
        group.create_task(producers.run(stop))
        _, _ = await asyncio.gather(asyncio.sleep(minutes * 60), faults.run())
        stop.set()


@asynccontextmanager
async def _consuming(stage: Stage, api: Api, history: History, seed: int) -> AsyncIterator[None]:
    random = Random(seed)
    works = [Puller(api, topic, history, random).run() for topic in PULLED for _ in range(_PULLERS)]
    works += [Subscriber(stage.amqp_url, topic, history, random).run() for topic in CONSUMED]
    async with together() as group:
        tasks = [group.create_task(work) for work in works]
        yield
        for task in tasks:
            task.cancel()


async def _until_nothing_owed(api: Api, history: History) -> None:
    """Waits until every due message has come. Gives up when none has come for a minute."""
    loop = asyncio.get_running_loop()
    count, moved_s = history.delivery_count, loop.time()
    dead: set[str] = set()
    while loop.time() - moved_s < _PATIENCE_S:
        await asyncio.sleep(_LOOK_S)
        for message_id in await _dead(api) - dead:
            dead.add(message_id)
            history.note(message_id, What.DEAD)
        verdict = await asyncio.to_thread(judge, tuple(history.events), max_retry=MAX_RETRY)
        if not verdict.lost and now_ms() > history.last_due_ms + _AFTERWARDS_MS:
            return
        if history.delivery_count > count:
            count, moved_s = history.delivery_count, loop.time()


async def _dead(api: Api) -> set[str]:
    """The ids of all dead letters."""
    ids: set[str] = set()
    for topic in PULLED + CONSUMED:
        cursor = ""
        while True:
            path = f"/v1/topics/{topic}/dead?limit=100"
            response = await api.insist("GET", f"{path}&cursor={cursor}" if cursor else path)
            page = response.raise_for_status().json()
            ids |= {item["id"] for item in page["items"]}
            cursor = page["next_cursor"]
            if not cursor:
                break
    return ids
