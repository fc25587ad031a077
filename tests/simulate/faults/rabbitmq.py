"""Blocks publishers of RabbitMQ, closes its connections, and restarts it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from tests.simulate.faults.target import Fault, Target
from tests.simulate.rabbitmq.broker import Broker
from tests.simulate.stage import RABBIT


class RabbitFaults(Target):
    @property
    def kinds(self) -> Mapping[str, Fault]:
        return {
            "alarm": self._alarm,
            "close AMQP connections": self._close_all,
            "restart RabbitMQ": self._restart,
        }

    @contextmanager
    def _broker(self) -> Iterator[Broker]:
        """Gives the broker at the present moment, and then sends what it has to send."""
        rabbit = self._stage.rabbit
        rabbit.advance()
        yield rabbit.broker
        rabbit.settle()

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
        with self._broker() as broker:
            broker.restart()
        await self._away(RABBIT)
