"""Puts the simulated RabbitMQ behind the simulated network."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from tests.simulate.amqp_trace import shown
from tests.simulate.clock import CLOCK
from tests.simulate.network import Link

if TYPE_CHECKING:
    from tests.simulate.loop import SimulatedLoop
    from tests.simulate.network import Network
    from tests.simulate.rabbitmq.broker import Broker
    from tests.simulate.rabbitmq.connection import Connection
    from tests.simulate.trace import Trace


_LATE_S: Final = 0.000_001  # a timer that fires a rounding error early would fire again and again


class SimulatedRabbit:
    """Gives the broker its time, and carries the bytes of its connections."""

    def __init__(self, network: Network, broker: Broker, trace: Trace) -> None:
        self._trace = trace
        self._loop: SimulatedLoop = network.loop
        self._network = network
        self.broker = broker
        self._peers: dict[int, Peer] = {}
        self._awake: dict[int, Peer] = {}  # those whose connection has something to send
        self._timer: asyncio.TimerHandle | None = None
        self._next_ms: float | None = None  # the broker's moment for which the timer waits

    def accept(self, link: Link) -> Peer:
        self.advance()
        peer = self._peers[link.number] = Peer(self, link, self.broker.connect())
        peer.connection.wakeup = peer.wake
        peer.flush()
        return peer

    def wake(self, peer: Peer) -> None:
        """Notes that the connection has something to send, once the broker's present step has ended."""
        if not self._awake:
            self._loop.call_soon(self.settle, context=self._network.context)
        self._awake[peer.link.number] = peer

    def advance(self) -> None:
        """Moves the broker's time to the present."""
        self.broker.advance(self._now_ms())

    def settle(self) -> None:
        """Sends what the broker has to send, and waits for its next moment."""
        awake, self._awake = self._awake, {}
        for peer in awake.values():
            peer.flush()
        next_ms = self.broker.next_moment_ms()
        if next_ms == self._next_ms:
            return
        self._next_ms = next_ms
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if next_ms is not None:
            wait_s = max(0.0, next_ms - self._now_ms()) / 1_000
            self._timer = self._loop.call_later(wait_s + _LATE_S, self._reached, context=self._network.context)

    def note(self, link: Link, direction: str, data: bytes) -> None:
        for line in shown(data):
            self._trace.note(link.name, f"{direction} {line}")

    def _now_ms(self) -> float:
        return CLOCK.unix_us / 1_000

    def gone(self, peer: Peer) -> None:
        self._peers.pop(peer.link.number, None)

    def _reached(self) -> None:
        self._timer = self._next_ms = None
        self.advance()
        self.settle()


class Peer:
    """One connection to the broker."""

    def __init__(self, rabbit: SimulatedRabbit, link: Link, connection: Connection) -> None:
        self._rabbit = rabbit
        self.link = link
        self.connection = connection

    def wake(self) -> None:
        self._rabbit.wake(self)

    def received(self, data: bytes) -> None:
        self._rabbit.note(self.link, ">", data)
        self._rabbit.advance()
        self.connection.received(data)
        self.flush()
        self._rabbit.settle()

    def flush(self) -> None:
        """Sends the connection's bytes, and its end."""
        if data := self.connection.output():
            self._rabbit.note(self.link, "<", data)
            self.link.send(data)
        if self.connection.closed:
            self.link.close()

    def lost(self) -> None:
        self._rabbit.advance()
        self.connection.lost()
        self._rabbit.gone(self)
        self._rabbit.settle()
