"""Builds one simulation: the loop, the network, the servers and the bridges."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from random import Random
from typing import Any, Final

import structlog

from benchmarks.log_faults import event_of
from tests.simulate import hashes
from tests.simulate.api import SimulatedApi
from tests.simulate.clock import CLOCK
from tests.simulate.loop import PROCESS, SimulatedLoop
from tests.simulate.network import Network
from tests.simulate.processes import Processes
from tests.simulate.rabbit import SimulatedRabbit
from tests.simulate.rabbitmq.broker import Broker
from tests.simulate.store import PrivateRedis, SimulatedRedis
from tests.simulate.trace import Trace

MAX_RETRY: Final = 3
BRIDGES: Final = 2
RABBIT, REDIS = "rabbitmq", "redis"
AMQP_URL: Final = "amqp://guest:guest@rabbitmq:5672/"
_DEAD_LETTER_RETRY_MS, _DEAD_LETTER_WINDOW = 5_000.0, 256  # as in deploy/rabbitmq-advanced.config
_LOST: Final = "audit.overdue"
"""The audit has found a message without a copy. That is its task after some faults, and a finding otherwise."""

_SETTINGS: Final[Mapping[str, Any]] = {
    "amqp_url": AMQP_URL,
    "redis_url": "redis://redis:6379/0",
    "max_retry": MAX_RETRY,
    "backoff_first": "200ms",
    "audit_every": "10s",
    "verify_every": "30s",
    "access": "open",
}


class Stage:
    """All parts of a simulation. A process has one at most: it takes over the clock of the process. `wall_ahead_s`: how
    far the wall clock of the bridges' machine is ahead. `may_lack_copies`: whether a fault has taken copies
    away, or lets records name former ones. `lost_acks`: the topic and id of each ack whose queue was deleted before the
    bridge had recorded the ack."""

    def __init__(self, seed: int, redis: PrivateRedis) -> None:
        CLOCK.begin(seed)
        hashes.install()
        CLOCK.ahead_s = lambda: self.wall_ahead_s if PROCESS.get() else 0.0
        self.wall_ahead_s = 0.0
        self.may_lack_copies = False
        self.lost_acks: set[tuple[str, str]] = set()
        self.seed = seed
        self.trace = Trace(CLOCK)
        self.findings: list[str] = []
        self.loop = SimulatedLoop(CLOCK, self.random("order"))
        asyncio.set_event_loop(self.loop)
        self.loop.set_exception_handler(self._unhandled)
        self.network = Network(self.loop, self.random("network"), self.trace)
        self.redis = SimulatedRedis(redis, CLOCK, self.trace)
        broker = Broker(version="3.10", random=self.random("broker"))
        broker.state.dead_letter_retry_ms, broker.state.dead_letter_window = _DEAD_LETTER_RETRY_MS, _DEAD_LETTER_WINDOW
        self.rabbit = SimulatedRabbit(self.network, broker, self.trace)
        self.network.servers = {("rabbitmq", 5672): (RABBIT, self.rabbit), ("redis", 6379): (REDIS, self.redis)}
        self.processes = Processes(self.network, self.trace, _SETTINGS, BRIDGES)
        self.api = SimulatedApi(self.processes, self.network, self.trace, self.random("clients"))
        self._catch_logs()

    def random(self, purpose: str) -> Random:
        """Returns a source of chance for one purpose, so that a change of one leaves the others alone."""
        return Random(f"{purpose} {self.seed}")

    def found(self) -> list[str]:
        """Returns what bridges logged as faults, and other things that must not happen."""
        return [*self.findings, *self.processes.findings, *self.api.findings]

    def _catch_logs(self) -> None:
        logging.disable(logging.CRITICAL)
        structlog.configure(processors=[self._logged], cache_logger_on_first_use=False)

    def _logged(self, _logger: object, level: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
        """Notes a line of a bridge's log in the trace. A fault is a finding too."""
        error = event.pop("exc_info", None)
        said = " ".join(f"{name}={value}" for name, value in event.items())
        line = f"{level} {said}{f' {error!r}' if error else ''}"
        who = f"log of {PROCESS.get()}"
        self.trace.note(who, line)
        is_lost = event.get("event") == _LOST and not self.may_lack_copies
        if is_lost or event_of({**event, "level": level}) is not None:
            self.findings.append(f"{who}: {line}")
        raise structlog.DropEvent

    def _unhandled(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        line = f"{context.get('message')}: {context.get('exception')!r}"
        self.trace.note("loop", line)
        self.findings.append(line)
