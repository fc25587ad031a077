"""Gives a test the servers of a bridge that runs inside the test's process."""

from __future__ import annotations

from random import Random
from typing import Final, Protocol

from tests.proxy import Proxy
from tests.simulate.clock import CLOCK
from tests.simulate.loop import SimulatedLoop
from tests.simulate.network import Network
from tests.simulate.proxy import SimulatedProxy
from tests.simulate.rabbit import SimulatedRabbit
from tests.simulate.rabbitmq.broker import Broker
from tests.simulate.store import PrivateRedis, SimulatedRedis
from tests.simulate.trace import Trace

AnyProxy = Proxy | SimulatedProxy
_SEED: Final = 0


class Stage(Protocol):
    """One RabbitMQ and one Redis, by their addresses."""

    @property
    def amqp_url(self) -> str: ...

    @property
    def redis_url(self) -> str: ...

    def proxy(self, url: str) -> AnyProxy:
        """Returns a proxy in front of the server at the address, not started yet."""
        ...


class SimulatedStage:
    """Simulated servers for the code of one event loop. Each is empty at first."""

    amqp_url: Final = "amqp://guest:guest@rabbitmq:5672/"
    redis_url: Final = "redis://redis:6379/0"

    def __init__(self, loop: SimulatedLoop, redis: PrivateRedis) -> None:
        trace = Trace(CLOCK)
        self._network = Network(loop, Random(_SEED), trace)
        self._redis = SimulatedRedis(redis, CLOCK, trace)
        rabbit = SimulatedRabbit(self._network, Broker(random=Random(_SEED)), trace)
        self._network.servers = {("rabbitmq", 5672): ("rabbitmq", rabbit), ("redis", 6379): ("redis", self._redis)}

    def proxy(self, url: str) -> SimulatedProxy:
        return SimulatedProxy(self._network, url)

    def close(self) -> None:
        self._redis.close()


class VirtualLoop(SimulatedLoop):
    """A loop whose time is the time of this process, from its beginning until it is closed."""

    def __init__(self) -> None:
        CLOCK.begin(_SEED)
        super().__init__(CLOCK, Random(_SEED))

    def close(self) -> None:
        super().close()
        CLOCK.end()
