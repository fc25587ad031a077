"""Disturbs a simulation: the seed decides which faults come when."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import Final

from tests.events import What
from tests.history import History
from tests.simulate.stage import RABBIT, REDIS, Stage
from tests.simulate.topics import ALL

_APART_S: Final = (1.5, 8.0)
_FIRST_S: Final = (2.0, 6.0)


class Faults:
    """The faults of a run. `counts`: by name, how often each came. `histories` get to know when Redis loses its
    keys."""

    def __init__(self, stage: Stage, histories: tuple[History, ...]) -> None:
        self._stage = stage
        self._network = stage.network
        self._histories = histories
        self._random: Random = stage.random("faults")
        self.counts: dict[str, int] = {}
        self._kinds: dict[str, Callable[[], Awaitable[None]]] = {
            "kill a bridge": self._kill,
            "terminate a bridge": self._terminate,
            "freeze a bridge": self._freeze,
            "cut connections": self._cut,
            "partition": self._partition,
            "slow network": self._slow,
            "lose calls of Redis": self._lose_calls,
            "restart Redis": self._restart_redis,
            "empty Redis": self._empty,
            "lose HTTP": self._lose_http,
            "alarm": self._alarm,
            "close AMQP connections": self._close_all,
            "restart RabbitMQ": self._restart_rabbit,
        }

    async def run(self, seconds: float) -> None:
        """Disturbs until the time has passed. All faults have ended then."""
        loop = self._stage.loop
        end_s = loop.time() + seconds
        pause_s = self._random.uniform(*_FIRST_S)
        running: list[asyncio.Task[None]] = []
        while loop.time() + pause_s < end_s:
            await asyncio.sleep(pause_s)
            name = self._random.choice([*self._kinds])
            self.counts[name] = self.counts.get(name, 0) + 1
            running.append(loop.create_task(self._one(name)))
            pause_s = self._random.uniform(*_APART_S)
        await asyncio.gather(*running)

    async def _one(self, name: str) -> None:
        self._note(f"{name} begins")
        await self._kinds[name]()
        self._note(f"{name} has ended")

    def _note(self, what: str) -> None:
        self._stage.trace.note("fault", what)

    def _place(self) -> int:
        return self._random.randrange(len(self._stage.processes.places))

    async def _wait(self, shortest_s: float, longest_s: float) -> None:
        await asyncio.sleep(self._random.uniform(shortest_s, longest_s))

    async def _kill(self) -> None:
        place = self._place()
        if not self._stage.processes.places[place].serves:
            return
        self._stage.processes.end(place)
        await self._wait(0.0, 2.0)
        self._stage.processes.begin(place)

    async def _terminate(self) -> None:
        place = self._place()
        process = self._stage.processes.places[place]
        if not process.serves:
            return
        stopping = process.stop()
        await asyncio.wait((stopping,), timeout=15.0)
        if self._stage.processes.places[place] is process:
            self._stage.processes.end(place)
            self._stage.processes.begin(place)

    async def _freeze(self) -> None:
        number = self._stage.processes.places[self._place()].number
        self._stage.loop.freeze(number)
        await self._wait(0.3, 4.0)
        self._stage.loop.thaw(number)

    async def _cut(self) -> None:
        server, loses = self._random.choice((RABBIT, REDIS)), self._random.random() < 0.5
        process = self._random.choice((None, self._stage.processes.places[self._place()].number))
        for link in self._network.links(server=server, process=process):
            link.cut(loses=loses)

    async def _partition(self) -> None:
        """Holds what goes between a process and a server, in one direction or both."""
        server = self._random.choice((RABBIT, REDIS))
        process = self._stage.processes.places[self._place()].number
        up, down = self._random.choice(((True, False), (False, True), (True, True)))
        self._note(f"between {process} and {server}, up {up}, down {down}")
        self._network.hanging.add((process, server))
        for link in self._network.links(server=server, process=process):
            link.hold(up=up, down=down)
        await self._wait(0.3, 5.0)
        self._network.hanging.discard((process, server))
        for link in self._network.links(server=server, process=process):
            link.hold(up=False, down=False)

    async def _slow(self) -> None:
        self._network.slow_s = self._random.choice((0.01, 0.05, 0.2))
        await self._wait(0.5, 4.0)
        self._network.slow_s = 0.0

    async def _lose_calls(self) -> None:
        """Loses calls of Redis before they run, or their answers."""
        share = self._random.choice((0.02, 0.1, 0.3))
        chance = self._random

        def fate() -> str:
            return chance.choice(("lost", "answer lost")) if chance.random() < share else ""

        self._stage.redis.fate = fate
        await self._wait(0.5, 4.0)
        self._stage.redis.fate = str

    async def _restart_redis(self) -> None:
        """Redis is away, and keeps its keys."""
        await self._away(REDIS)

    async def _empty(self) -> None:
        """Redis loses its keys. It would list no dead letter any more, so they are noted before."""
        dead = {
            one.decode().partition("~")[0]
            for topic in ALL
            for one in self._stage.redis.command("ZRANGE", f"delay/{{{topic}}}/dead", 0, -1)
        }
        for history in self._histories:
            for key in dict.fromkeys(event.message_id for event in history.events):
                if key.partition("#")[0] in dead:
                    history.note(key, What.DEAD)
            history.emptying()
        self._stage.redis.command("FLUSHALL")
        self._stage.redis.command("SCRIPT", "FLUSH")
        for history in self._histories:
            history.emptying()

    async def _lose_http(self) -> None:
        chance = self._random

        def fate() -> str:
            return chance.choice(("lost", "answer lost", "impatient")) if chance.random() < 0.3 else ""

        self._stage.api.fate = fate
        await self._wait(1.0, 5.0)
        self._stage.api.fate = str

    async def _alarm(self) -> None:
        """RabbitMQ blocks publishers."""
        rabbit = self._stage.rabbit
        rabbit.advance()
        rabbit.broker.block("low on memory")
        rabbit.settle()
        await self._wait(0.3, 3.0)
        rabbit.advance()
        rabbit.broker.unblock()
        rabbit.settle()

    async def _close_all(self) -> None:
        rabbit = self._stage.rabbit
        rabbit.advance()
        rabbit.broker.close_all("CONNECTION_FORCED - the simulation closes all connections")
        rabbit.settle()

    async def _restart_rabbit(self) -> None:
        rabbit = self._stage.rabbit
        rabbit.advance()
        rabbit.broker.restart()
        await self._away(RABBIT)

    async def _away(self, server: str) -> None:
        self._network.refusing.add(server)
        for link in self._network.links(server=server):
            link.cut(loses=True)
        await self._wait(0.0, 3.0)
        self._network.refusing.discard(server)
