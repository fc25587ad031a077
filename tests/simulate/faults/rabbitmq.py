"""Blocks publishers of RabbitMQ, closes its connections, and kills it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from random import Random
from typing import Final

from tests.history import History
from tests.simulate.consumers import SpoilingPuller
from tests.simulate.faults.target import Fault, Target
from tests.simulate.stage import AMQP_URL, RABBIT, Stage
from tests.simulate.topics import YOUNG
from tests.torture.amqp import Publisher
from tests.torture.policies import Policies
from tests.torture.sender import Sender

_YOUNG_MS: Final = 1_200  # a kill forgets no older queue, as measured: docs/profiles.md
_MESSAGES: Final = 3  # of a young topic


class RabbitFaults(Target):
    def __init__(self, stage: Stage, random: Random, histories: Sequence[History]) -> None:
        super().__init__(stage, random, histories)
        self._unborn = [*YOUNG]
        self._pulling: list[asyncio.Task[None]] = []

    @property
    def kinds(self) -> Mapping[str, Fault]:
        return {
            "alarm": self._alarm,
            "close AMQP connections": self._close_all,
            "restart RabbitMQ": self._restart,
            "kill RabbitMQ with young queues": self._kill_young,
        }

    async def _alarm(self) -> None:
        """RabbitMQ blocks publishers."""
        with self._broker() as broker:
            broker.block(self._random.choice(("low on memory", "low on disk")))
        await self._wait(0.3, 3.0)
        with self._broker() as broker:
            broker.unblock()

    async def _close_all(self) -> None:
        with self._broker() as broker:
            broker.close_all("CONNECTION_FORCED - the simulation closes all connections")

    async def _restart(self) -> None:
        """Kills RabbitMQ. Some time after its return, an operator deletes the queues that it has half forgotten."""
        with self._broker() as broker:
            forgotten = broker.restart(young_ms=_YOUNG_MS)
        if forgotten:
            self._note(f"RabbitMQ has forgotten {', '.join(forgotten)}")
            self._stage.may_lack_copies = True
        await self._away(RABBIT)
        if forgotten:
            await self._wait(0.0, 4.0)
        for queue in forgotten:
            with self._broker() as broker:
                if queue in broker.state.queues and not broker.state.queues[queue].leader.is_there:
                    broker.delete(queue)

    async def _kill_young(self) -> None:
        """Kills RabbitMQ in the second after a topic's first messages."""
        if not self._unborn:
            return
        topic, history = self._unborn.pop(), self._histories[0]
        policies = Policies(self._stage.api, history, self._random)
        sender = Sender(self._stage.api, Publisher(AMQP_URL), history, policies)
        delays_ms = [self._random.choice((0, self._random.randint(0, 3_000))) for _ in range(_MESSAGES)]
        sending = [
            self._stage.loop.create_task(sender.send(topic, f"{topic}-{number}", {"delay": delay_ms}))
            for number, delay_ms in enumerate(delays_ms)
        ]
        await self._wait(0.0, 1.8)
        await self._restart()
        await asyncio.gather(*sending)
        random = self._stage.random(f"puller {topic}")
        puller = SpoilingPuller(self._stage.api, topic, history, policies, random, spoiled=0.1)
        self._pulling.append(self._stage.loop.create_task(puller.run()))
