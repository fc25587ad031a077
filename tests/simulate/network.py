"""Connects processes with simulated servers, in memory, and disturbs the connections.

Bytes of one direction arrive in their order, each piece after a latency that the seed draws. A direction may be held:
then its bytes wait, as behind a partition. A cut connection loses what is under way, or not, as the seed draws.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from contextvars import Context, copy_context
from random import Random
from typing import Any, Final, Protocol

from tests.simulate.loop import PROCESS, WORLD, SimulatedLoop
from tests.simulate.trace import Trace
from tests.simulate.transport import ClientTransport

_LATENCY_S: Final = (0.000_05, 0.000_8)
_LATE, _LATE_S = 0.01, (0.001, 0.02)  # the share of pieces that a busy network delays, and by how much
_SYN_AGAIN_S: Final = 1.0
_END: Final = None


class Peer(Protocol):
    """A server's end of a connection."""

    def received(self, data: bytes) -> None:
        """Takes bytes of the client."""
        ...

    def lost(self) -> None:
        """Ends the connection: the client has closed it, or it was cut."""
        ...


class Server(Protocol):
    """A simulated server. `accept`: takes a new connection; it raises OSError to refuse it."""

    def accept(self, link: Link) -> Peer: ...


class Way:
    """One direction of a connection. `deliver` gets each piece, and None at the end. `context`: whose callbacks the
    deliveries are."""

    def __init__(self, network: Network, deliver: Callable[[bytes | None], None], context: Context) -> None:
        self._network = network
        self._deliver = deliver
        self._context = context
        self._pieces: deque[bytes | None] = deque()
        self._arrived = 0
        self._last_s = 0.0
        self._ended = False
        self.is_held = False
        self.is_paused = False

    def send(self, piece: bytes | None) -> None:
        """Sends a piece, or the end, behind which nothing follows."""
        if self._ended:
            return
        loop = self._network.loop
        arrives_s = loop.time() + self._network.latency_s()
        if piece is _END:
            self._ended = True
        elif arrives_s <= self._last_s and self._pieces and (before := self._pieces[-1]):
            self._pieces[-1] = before + piece  # it can't arrive before the piece before it, so both arrive as one
            return
        self._pieces.append(piece)
        self._last_s = max(self._last_s, arrives_s)
        loop.call_at(self._last_s, self._arrive, context=self._context)

    def drop(self) -> None:
        """Loses the pieces that have not arrived, and the end with them."""
        self._pieces.clear()
        self._arrived = 0
        self._ended = False

    def release(self) -> None:
        """Delivers what has arrived, now that nothing holds it back."""
        self._network.loop.call_soon(self._flush, context=self._context)

    def _arrive(self) -> None:
        self._arrived += 1
        self._flush()

    def _flush(self) -> None:
        while self._arrived and self._pieces and not self.is_held and not self.is_paused:
            self._arrived -= 1
            self._deliver(self._pieces.popleft())


class Link:
    """One connection, from a process to a server. `name` is for the trace."""

    def __init__(self, network: Network, number: int, server: str, protocol: asyncio.BaseProtocol) -> None:
        self._network = network
        self.number = number
        self.server = server
        self.process = PROCESS.get()
        self.name = f"{server}#{number} of {self.process}"
        self.is_cut = False
        self.peer: Peer | None = None
        self.up = Way(network, self._to_server, network.context)
        self.down = Way(network, self._to_client, copy_context())
        self.transport = ClientTransport(protocol, self.up, self.down, self._closed)

    def send(self, data: bytes) -> None:
        """Sends bytes of the server to the client."""
        self.down.send(data)

    def close(self) -> None:
        """Ends the connection for the server. The client reads what was sent before."""
        self.down.send(_END)

    def cut(self, *, loses: bool) -> None:
        """Ends the connection for both sides, after a latency. `loses`: what is under way is lost."""
        self.is_cut = True
        for way in (self.up, self.down):
            if loses:
                way.drop()
            way.is_held = way.is_paused = False
            way.release()
            way.send(_END)

    def hold(self, *, up: bool, down: bool) -> None:
        """Holds one or both directions, until `hold(up=False, down=False)`."""
        for way, held in ((self.up, up), (self.down, down)):
            way.is_held = held
            if not held:
                way.release()

    def _to_server(self, piece: bytes | None) -> None:
        peer = self.peer
        if peer is None:
            return
        if piece is not _END:
            peer.received(piece)
            return
        self.peer = None
        self._network.ended(self)
        peer.lost()
        self.down.send(_END)

    def _to_client(self, piece: bytes | None) -> None:
        if piece is not _END:
            self.transport.take(piece)
        elif self.is_cut:
            self.transport.reset()
        else:
            self.transport.take_end()

    def _closed(self) -> None:
        """The client has closed its end."""
        self.up.send(_END)


class Network:
    """All connections. `servers`: by address. `refusing`: servers that are down. `hanging`: pairs of process and server
    between which no new connection is made, as behind a partition."""

    def __init__(self, loop: SimulatedLoop, random: Random, trace: Trace) -> None:
        self.loop = loop
        self.random = random
        self.context = copy_context()  # of the world
        self.servers: dict[tuple[str, int], tuple[str, Server]] = {}
        self.refusing: set[str] = set()
        self.hanging: set[tuple[int, str]] = set()
        self.slow_s = 0.0
        self._trace = trace
        self._links: dict[int, Link] = {}
        self._count = 0
        loop.connect = self.connect

    def latency_s(self) -> float:
        late_s = self.random.uniform(*_LATE_S) if self.random.random() < _LATE else 0.0
        return self.random.uniform(*_LATENCY_S) + late_s + self.slow_s

    def links(self, *, server: str | None = None, process: int | None = None) -> Iterator[Link]:
        """Yields the open connections of a server, of a process, or all."""
        for link in [*self._links.values()]:
            if server in (None, link.server) and process in (None, link.process):
                yield link

    def ended(self, link: Link) -> None:
        self._links.pop(link.number, None)
        self._trace.note(link.name, "ended")

    async def connect(
        self, factory: Callable[[], asyncio.BaseProtocol], host: str, port: int, **_: Any
    ) -> tuple[asyncio.BaseTransport, asyncio.BaseProtocol]:
        """Opens a connection for the process that asks."""
        name, server = self.servers[host, port]
        process = PROCESS.get()
        await asyncio.sleep(self.latency_s())
        while (process, name) in self.hanging:  # noqa: ASYNC110 - a client's kernel tries again so
            await asyncio.sleep(_SYN_AGAIN_S)
        if name in self.refusing:
            raise ConnectionRefusedError(f"{host}:{port} refuses connections")
        protocol = factory()
        self._count += 1
        link = Link(self, self._count, name, protocol)
        link.peer = server.accept(link)
        self._links[self._count] = link
        self._trace.note(link.name, "opened")
        protocol.connection_made(link.transport)
        await asyncio.sleep(self.latency_s())
        return link.transport, protocol

    def died(self, process: int) -> None:
        """Ends the connections of a process that was killed, as its kernel does."""
        assert process != WORLD
        for link in self.links(process=process):
            if self.random.random() < 0.5:
                link.up.drop()
            link.up.is_held = False
            link.up.release()
            link.up.send(_END)
