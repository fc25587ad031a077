"""Disturbs the simulated connections to one server when a test says so, as `tests.proxy` does real ones."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final, Self, cast
from urllib.parse import urlsplit, urlunsplit

from tests.simulate.network import Link, Network, Peer, Server

_PORTS: Final = {"amqp": 5672, "redis": 6379}


class SimulatedProxy:
    """A proxy in front of the server at `url`. `request_latency_s` is added to each piece for the server."""

    def __init__(self, network: Network, url: str) -> None:
        self._network = network
        self._target = urlsplit(url)
        self._name, self._server = network.servers[str(self._target.hostname), _PORTS[self._target.scheme]]
        self._host = f"proxy-{len(network.servers)}"
        self._takes_connections = True
        self._requests_held = self._answers_held = False
        self._links: list[_Passed] = []
        self.trigger: bytes | None = None
        self.request_latency_s = 0.0
        self.lost = asyncio.Event()  # the proxy threw an answer away, and cut its connection

    @property
    def url(self) -> str:
        """The server's address, by way of the proxy."""
        user, at, _ = self._target.netloc.rpartition("@")
        return urlunsplit(self._target._replace(netloc=f"{user}{at}{self._host}:{_PORTS[self._target.scheme]}"))

    async def __aenter__(self) -> Self:
        self._network.servers[self._host, _PORTS[self._target.scheme]] = self._name, self
        return self

    async def __aexit__(self, *_: object) -> None:
        self.cut()

    def accept(self, link: Link) -> Peer:
        if not self._takes_connections:
            raise ConnectionRefusedError(f"{self._host} refuses connections")
        passed = _Passed(self, link, self._server)
        self._links.append(passed)
        link.hold(up=self._requests_held, down=self._answers_held)
        return passed

    def cut(self) -> None:
        """Closes every connection, and accepts none until `mend`."""
        self._takes_connections = False
        for passed in self._links:
            passed.link.cut(loses=True)
        self._links.clear()

    def mend(self) -> None:
        """Accepts connections again."""
        self._takes_connections = True

    def fall_silent(self, *, requests: bool = True, answers: bool = True) -> None:
        """Keeps every connection and passes nothing on, as a server that hangs. Or only in one direction."""
        self._hold(self._requests_held or requests, self._answers_held or answers)

    def speak(self) -> None:
        """Passes on what it held, also of connections that the client has closed meanwhile."""
        self._hold(requests=False, answers=False)

    def lose_the_answer_to(self, request: bytes) -> None:
        """Cuts the first connection that sends these bytes when the server has answered them, and drops the answer."""
        self.trigger = request
        self.lost.clear()

    def _hold(self, requests: bool, answers: bool) -> None:
        self._requests_held, self._answers_held = requests, answers
        for passed in self._links:
            passed.link.hold(up=requests, down=answers)


class _Passed:
    """One connection through a proxy: the server's end for the client, and the client's end for the server."""

    def __init__(self, proxy: SimulatedProxy, link: Link, server: Server) -> None:
        self._proxy = proxy
        self.link = link
        self.number, self.name = link.number, link.name
        self._loses_next = False
        self._peer = server.accept(cast(Link, self))

    def received(self, data: bytes) -> None:
        self._pass(self._ask, data)

    def _ask(self, data: bytes) -> None:
        if self._proxy.trigger is not None and self._proxy.trigger in data:
            self._proxy.trigger = None
            self._loses_next = True
        self._peer.received(data)

    def lost(self) -> None:
        self._pass(self._peer.lost)

    def _pass(self, work: Callable[..., None], *arguments: bytes) -> None:
        if self._proxy.request_latency_s:
            asyncio.get_running_loop().call_later(self._proxy.request_latency_s, work, *arguments)
        else:
            work(*arguments)

    def send(self, data: bytes) -> None:
        """Passes an answer on, unless it is the one to lose."""
        if self._loses_next:
            self._proxy.lost.set()
            self.link.cut(loses=True)
        else:
            self.link.send(data)

    def close(self) -> None:
        self.link.close()

    def cut(self, *, loses: bool) -> Any:
        self.link.cut(loses=loses)
