"""Does a whole run: load and faults, then a calm time, then the judgement."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.loops import together
from tests.events import What
from tests.history import History, now_ms
from tests.timelines import misfits_in
from tests.torture import api as http
from tests.torture.api import Api
from tests.torture.faults import Faults
from tests.torture.load import RATE_PER_S, Load
from tests.torture.outcome import Outcome
from tests.torture.plan import plan
from tests.torture.producers import SHORT_MS
from tests.torture.stage import MAX_RETRY, SetUp, running
from tests.torture.starving import first_served, starved
from tests.torture.topics import ALL

_PATIENCE_S = 90.0  # the bridge believes a copy that Redis has forgotten after a minute
_LOOK_S = 2.0
_AFTERWARDS_MS = 3_000  # after the last due moment, in which no message may come


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a run shall do. `longest_s`: the longest delay. `load`: that many processes keep the machine busy while load
    and faults go on."""

    minutes: float
    seed: int
    rate_per_s: float = RATE_PER_S
    longest_s: float = SHORT_MS / 1_000
    load: int = 0
    set_up: SetUp = SetUp.SINGLE

    def __str__(self) -> str:
        amount = f"{self.minutes:g} minutes, {self.rate_per_s:g} messages a second of up to {self.longest_s:g} s"
        return f"seed {self.seed}, {amount}, load {self.load}, {self.set_up}"


async def torture(folder: Path, wanted: Wanted, said: Callable[[str], None]) -> Outcome:
    """Starts private servers in the folder, and kills them at the end. Calls `said` with lines about the progress.

    Raises:
        LocalError: a server did not start, or did not come back after a fault.
    """
    lines: list[str] = []

    def noted(line: str) -> None:
        lines.append(f"{now_ms()} {line}")
        said(line)

    noted(str(wanted))
    history = History(MAX_RETRY, forgetful=wanted.set_up is SetUp.SENTINEL)
    async with running(folder, wanted.set_up, wanted.seed) as stage, http.opened(stage.http_urls, wanted.seed) as api:
        if not first_served():
            noted("this process has no higher priority than the servers: it may not set it")
        planned = plan(wanted.seed, wanted.minutes, partitions=wanted.set_up is SetUp.CLUSTER)
        faults = Faults(stage, planned, history, noted)
        longest_ms = round(wanted.longest_s * 1_000)
        load = Load(stage, api, history, rate_per_s=wanted.rate_per_s, longest_ms=longest_ms, seed=wanted.seed)
        async with load.consuming():
            with starved(wanted.load, folder / "log" / "starving.log"):
                await _loaded(load, faults, wanted.minutes * 60)
            noted("no more load and no more faults; waiting for what is owed")
            await _until_nothing_owed(api, history)
            load.end()
        misfits = await misfits_in(stage.redis_url)
    return Outcome(history.verdict(), faults.counts, history, [*stage.errors(), *load.findings, *misfits], lines)


async def _loaded(load: Load, faults: Faults, seconds: float) -> None:
    """Returns when the time and the last fault have passed and every send was accepted."""
    stop = asyncio.Event()
    async with together() as group:
        group.create_task(load.run(stop, seconds))
        _, _ = await asyncio.gather(asyncio.sleep(seconds), faults.run())
        stop.set()


async def _until_nothing_owed(api: Api, history: History) -> None:
    """Waits until every due message has come. Gives up when none has come for long."""
    loop = asyncio.get_running_loop()
    count, moved_s = history.delivery_count, loop.time()
    dead: set[str] = set()
    while loop.time() - moved_s < _PATIENCE_S:
        await asyncio.sleep(_LOOK_S)
        for key in await _dead(api) - dead:
            dead.add(key)
            history.note(key, What.DEAD)
        verdict = await asyncio.to_thread(history.verdict)
        if not verdict.lost and now_ms() > history.last_due_ms + _AFTERWARDS_MS:
            return
        if history.delivery_count > count:
            count, moved_s = history.delivery_count, loop.time()


async def _dead(api: Api) -> set[str]:
    """The keys of all dead letters."""
    keys: set[str] = set()
    for topic in ALL:
        cursor = ""
        while True:
            path = f"/v1/topics/{topic}/dead?limit=100"
            response = await api.insist("GET", f"{path}&cursor={cursor}" if cursor else path)
            if response.status_code == 404:
                break  # nothing was sent to this topic
            page = response.raise_for_status().json()
            keys |= {item.get("body", item["id"]) for item in page["items"]}
            cursor = page["next_cursor"]
            if not cursor:
                break
    return keys
