"""Talks to the masters of a Redis Cluster: finds the master of each key, and follows its redirections.

The bridge does not use redis-py's own cluster client. That one retries commands which may have run, and drops every
connection when a slot moves. The bridge retries only what a server has certainly NOT run, on the server to which it
redirects (MOVED, ASK). TRYAGAIN is an error: it lasts until the slot has moved, and the caller knows best how long to
wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from math import inf
from time import monotonic
from typing import Any, TypeVar

from redis.crc import key_slot
from redis.exceptions import AskError, ClusterDownError, ClusterError, MovedError, RedisError, ResponseError

from bridge.model.breaker import Breaker
from bridge.model.errors import StoreUnavailable
from bridge.settings.redis_url import Hosts
from bridge.settings.tls import tls_failure
from bridge.store.clock import StoreClock
from bridge.store.servers.server import RedisServer
from bridge.store.servers.servers import PackedCommand, pack

Answer = TypeVar("Answer")

_SLOTS = pack("", "CLUSTER", "SLOTS")
_ASKING = pack("", "ASKING")
# The most redirections that a command follows.
_ROUNDS = 4
# While a server is away, the bridge asks the others for the holders of the slots at most once in this time.
_REST_S = 0.25
_FAILURES = (StoreUnavailable, RedisError, OSError, TimeoutError)


class Cluster:
    def __init__(self, seeds: Hosts, clock: StoreClock, make: Callable[[str, int], RedisServer]) -> None:
        """`seeds`: nodes that know the other nodes. `make`: makes a server from its host and port."""
        self.title = f"Redis Cluster at {','.join(f'{host}:{port}' for host, port in seeds)}"
        self._clock = clock
        self._make = make
        self._seeds = seeds
        self._servers: dict[tuple[str, int], RedisServer] = {}
        self._by_slot: Mapping[int, RedisServer] = {}
        self._failed: set[RedisServer] = set()
        self._learning = asyncio.Lock()
        self._learned_s = -inf

    @property
    def breakers(self) -> Iterable[Breaker]:
        return [server.breaker for server in self._servers.values()]

    async def ask(self, commands: Sequence[PackedCommand], *, timed: bool = False) -> list[Any]:
        answers: list[Any] = [None] * len(commands)
        left: Sequence[int] = range(len(commands))
        for _ in range(_ROUNDS):
            if self._failed or not self._by_slot:
                await self._learn()
            groups: dict[tuple[RedisServer, bool], list[int]] = {}
            for at in left:
                groups.setdefault(self._place(commands[at], answers[at]), []).append(at)
            await self._ask_each(groups, commands, answers, timed)
            left = [at for at in left if isinstance(answers[at], AskError)]
            if not left:
                return answers
        raise StoreUnavailable(
            f"{self.title} redirects a key from server to server, {_ROUNDS} times; try again", partly=True
        )

    async def learn_time(self, keys: Sequence[str]) -> None:
        if self._failed or not self._by_slot:
            await self._learn()
        servers = {self._holder(key) for key in keys} or set(self._by_slot.values())
        ended = await asyncio.gather(
            *(self._of(server, server.learn_time(())) for server in servers), return_exceptions=True
        )
        failures = [failure for failure in ended if failure is not None]
        if failures and (keys or len(failures) == len(servers)):
            raise failures[0]

    async def ask_each(self, command: PackedCommand) -> list[Any]:
        if self._failed or not self._by_slot:
            await self._learn()
        servers = set(self._by_slot.values())
        answers = await asyncio.gather(*(self._of(server, server.ask([command])) for server in servers))
        return [answer for (answer,) in answers]

    def apart(self, keys: Sequence[str]) -> list[list[int]]:
        groups: dict[RedisServer | None, list[int]] = {}
        for at, key in enumerate(keys):
            groups.setdefault(self._by_slot.get(_slot(key)), []).append(at)
        return list(groups.values())

    async def close(self) -> None:
        await asyncio.gather(*(server.close() for server in self._servers.values()))

    def _at(self, host: str, port: int) -> RedisServer:
        if (host, port) not in self._servers:
            self._servers[host, port] = self._make(host, port)
        return self._servers[host, port]

    def _holder(self, key: str) -> RedisServer:
        server = self._by_slot.get(_slot(key))
        if server is None:
            raise StoreUnavailable(f"no server of the {self.title} holds the slot of the key", partly=True)
        return server

    def _place(self, command: PackedCommand, refusal: AskError | None) -> tuple[RedisServer, bool]:
        """Returns the server to ask, and whether the command needs ASKING first: another server is moving the key to it
        and has redirected us."""
        if refusal is None:
            return self._holder(command.key), False
        return self._at(refusal.host, refusal.port), not isinstance(refusal, MovedError)

    async def _ask_each(
        self,
        groups: Mapping[tuple[RedisServer, bool], list[int]],
        commands: Sequence[PackedCommand],
        answers: list[Any],
        timed: bool,
    ) -> None:
        async def ask(server: RedisServer, asking: bool, indexes: list[int]) -> None:
            own = [commands[at] for at in indexes]
            if asking:
                own = [sent for command in own for sent in (_ASKING, command)]
            received = await self._of(server, server.ask(own, timed=timed and not asking))
            for at, answer in zip(indexes, received[1::2] if asking else received, strict=True):
                answers[at] = answer
                if isinstance(answer, AskError | ClusterError):
                    self._refused(server, answer)

        # Every call has a time limit, so waiting for all of them ends.
        ended = await asyncio.gather(
            *(ask(server, asking, indexes) for (server, asking), indexes in groups.items()), return_exceptions=True
        )
        for failure in ended:
            if failure is not None:
                raise failure

    async def _of(self, server: RedisServer, asked: Awaitable[Answer]) -> Answer:
        """Awaits an answer of the server.

        Raises:
            StoreUnavailable: names the server, and says whether others answer.
        """
        try:
            return await asked
        except _FAILURES as error:
            self._failed.add(server)
            refused = isinstance(error, StoreUnavailable)
            reason = (
                str(error)
                if refused
                else f"{server.title} did not answer: {tls_failure(error) or type(error).__name__}"
            )
            raise StoreUnavailable(reason, partly=bool(set(self._by_slot.values()) - self._failed)) from error

    def _refused(self, server: RedisServer, refusal: AskError | ClusterError) -> None:
        if isinstance(refusal, AskError):
            # A node leaves the host out if it does not know it. Then it is the node's own host.
            refusal.host = refusal.host or server.name.rpartition(":")[0]
        if isinstance(refusal, MovedError):
            self._by_slot = {**self._by_slot, refusal.slot_id: self._at(refusal.host, refusal.port)}
        elif isinstance(refusal, ClusterDownError):
            self._failed.add(server)

    async def _learn(self) -> None:
        """Asks the servers which master holds which slots. Without an answer, the known masters stay as they are."""
        async with self._learning:
            if self._by_slot and monotonic() - self._learned_s < _REST_S:
                return
            masters = set(self._by_slot.values())
            healthy_first = sorted(masters, key=lambda server: (server in self._failed, server.breaker.state))
            known = [*healthy_first, *self._seeded()]
            failure: Exception | None = None
            for server in known:
                try:
                    (rows,) = await server.ask([_SLOTS])
                    if isinstance(rows, ResponseError):
                        raise StoreUnavailable(f"{server.title} is not a node of a Redis Cluster: {rows}")
                except _FAILURES as error:
                    failure = error
                    continue
                self._learned_s = monotonic()
                await self._take_over(server, rows)
                return
            self._learned_s = monotonic()
            if not self._by_slot and failure is not None:
                raise failure

    def _seeded(self) -> list[RedisServer]:
        return [self._at(*seed) for seed in self._seeds]

    async def _take_over(self, asked: RedisServer, rows: Sequence[Any]) -> None:
        own_host = asked.name.rpartition(":")[0]
        by_slot: dict[int, RedisServer] = {}
        for first, last, (host, port, *_), *_ in rows:
            # A node that does not know its own host leaves it out.
            holder = self._at(host.decode() if host else own_host, port)
            by_slot.update(dict.fromkeys(range(first, last + 1), holder))
        self._by_slot = by_slot
        masters = set(by_slot.values())
        self._failed.clear()
        self._clock.only({server.name for server in masters})
        kept = masters | set(self._seeded())
        gone = [address for address, server in self._servers.items() if server not in kept]
        for address in gone:
            with suppress(*_FAILURES):
                await self._servers.pop(address).close_idle()


def _slot(key: str) -> int:
    return key_slot(key.encode())
