"""Does one simulation: load and faults, then a calm time, then the judgement."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Final

from tests.events import What
from tests.history import History, now_ms
from tests.simulate.clock import CLOCK
from tests.simulate.faults.drawing import Faults
from tests.simulate.load import Load
from tests.simulate.mix import Mix
from tests.simulate.plan import Plan, StepRandom
from tests.simulate.remains import remains
from tests.simulate.second_lives import SecondLives
from tests.simulate.stage import AMQP_URL, BRIDGES, MAX_RETRY, Stage
from tests.simulate.store import PrivateRedis
from tests.simulate.topics import ALL
from tests.torture.topics import PULLED, REMOVED

MESSAGES_PER_S: Final = 4.0  # and 40 a minute in a topic that is removed, and 10 dead letters
_PATIENCE_S: Final = 100.0  # the bridge believes a copy that Redis has forgotten after a minute
_LOOK_S: Final = 2.0
_AFTERWARDS_MS: Final = 3_000  # after the last due moment, in which no message may come


@dataclass
class Outcome:
    """What one simulation found. `broken`: the promises that broke, and other findings, with what shows them. `plan`:
    with the steps that the seed drew."""

    plan: Plan
    digest: str = ""
    broken: list[str] = field(default_factory=list)
    figures: dict[str, Any] = field(default_factory=dict)


class Simulation:
    """One run of one plan."""

    def __init__(self, plan: Plan, redis: PrivateRedis) -> None:
        gc.disable()  # its moments depend on more than the seed
        self.stage = Stage(plan.seed, redis)
        self.history, self.once = History(MAX_RETRY), History(0)
        random = StepRandom(self.stage.random("load"))
        self.mix = Mix.drawn(self.stage.random("mix"))
        self.load = Load(self.stage.api, AMQP_URL, (self.history, self.once), random, mix=self.mix)
        self.faults = Faults(self.stage, (self.history, self.once), self.mix)
        self.plan = self._drawn(plan)

    def run(self) -> Outcome:
        began_s, cpu_s = time.perf_counter(), time.process_time()
        outcome = Outcome(self.plan)
        try:
            self.stage.loop.run_until_complete(self._run())
        except Exception as error:  # noqa: BLE001 - any error of a run is a finding of its seed
            outcome.broken.append(f"the simulation failed: {error!r}")
            self.stage.trace.note("simulation", f"failed: {error!r}")
        outcome.broken += [*self.stage.found(), *self.load.findings, *self._judged()]
        outcome.broken += remains(self.stage, tuple(topic for topic in ALL if topic != REMOVED))
        outcome.digest = self.stage.trace.digest
        outcome.figures = {
            "virtual_seconds": round(CLOCK.elapsed_s, 1),
            "messages": self.history.verdict().counts()["accepted"] + self.once.verdict().counts()["accepted"],
            "deliveries": self.history.delivery_count + self.once.delivery_count,
            "http_calls": self.stage.api.calls,
            "redis_calls": self.stage.redis.calls,
            "moves": self.stage.redis.lives.moves,
            "trace_lines": len(self.stage.trace.lines),
            "faults": self.faults.counts,
            "seconds": round(time.perf_counter() - began_s, 2),
            "cpu_seconds": round(time.process_time() - cpu_s, 2),
        }
        return outcome

    def _drawn(self, plan: Plan) -> Plan:
        load, faults = plan.load, plan.faults
        if load is None:
            random, messages = self.stage.random("load"), round(plan.seconds * MESSAGES_PER_S)
            load = self.load.drawn(random, plan.seconds, messages)
        if faults is None:
            faults = self.faults.drawn(plan.seconds)
        return replace(plan, load=load, faults=faults)

    async def _run(self) -> None:
        stage = self.stage
        for place in range(BRIDGES):
            await stage.processes.start(place)
        await self.load.first()
        consuming = [stage.loop.create_task(work) for work in self.load.consumers()]
        await self.load.fill()
        async with asyncio.TaskGroup() as group:
            steps = self.plan.load or ()
            group.create_task(self.load.run(steps, lambda number: stage.random(f"action {number}"), self.plan.seconds))
            group.create_task(SecondLives(stage.api, self.history, PULLED[0]).run(self.plan.seconds))
            group.create_task(self.faults.run(self.plan.faults or ()))
        self.load.end()
        stage.trace.note("simulation", "no more load and no more faults")
        await self._until_nothing_owed()
        for task in consuming:
            if task.done():
                task.result()
            task.cancel()  # a message that is given back from now on would be owed, and nobody waits for it
        await self.load.look(stage.lost_acks)

    async def _until_nothing_owed(self) -> None:
        """Waits until every due message has come. Gives up when none has come for long."""
        loop = self.stage.loop
        count, moved_s = -1, loop.time()
        dead: set[str] = set()
        while loop.time() - moved_s < _PATIENCE_S:
            await asyncio.sleep(_LOOK_S)
            for letter in [one async for one in self.load.replays.letters()]:
                if (name := f"{letter.topic} {letter.key}") not in dead:
                    dead.add(name)
                    letter.history.note(letter.key, What.DEAD)
            now_count = self.history.delivery_count + self.once.delivery_count
            if not self.history.verdict().lost and not self.once.verdict().lost:
                if now_ms() > max(self.history.last_due_ms, self.once.last_due_ms) + _AFTERWARDS_MS:
                    return
            elif now_count > count:
                count, moved_s = now_count, loop.time()

    def _judged(self) -> Iterator[str]:
        lives = self.stage.redis.lives
        yield from lives.findings
        yield from lives.misfits()
        for history in (self.history, self.once):
            for promise, keys in history.verdict().wrong.items():
                for key in keys:
                    yield f"{promise} {key}: {'; '.join(map(str, history.of(key)))}"
