"""Talks to the masters of a Redis Cluster: finds the master of each key, and follows the cluster's redirections.

The bridge does not use redis-py's cluster client. That client retries commands which may have run, and drops every
connection when a slot moves. The bridge retries only commands that a server has certainly NOT run because it redirects
them (MOVED, ASK). It sends them to the server that the redirection names. TRYAGAIN is an error: it lasts until the slot
has moved, and the caller knows best how long to wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from math import inf
from time import monotonic
from typing import TypeVar

from redis.crc import key_slot
from redis.exceptions import (
    AskError,
    ClusterDownError,
    ClusterError,
    MovedError,
    NoScriptError,
    RedisError,
    ResponseError,
)

from bridge.model.breaker import Breaker
from bridge.model.errors import StoreUnavailable
from bridge.settings.redis_url import Hosts
from bridge.store.clock import StoreClock
from bridge.store.replies import Reply, maybe, several, text, whole
from bridge.store.servers.refusals import unavailable
from bridge.store.servers.server import RedisServer
from bridge.store.servers.servers import PackedCommand, pack

Answer = TypeVar("Answer")

_SLOTS = pack("", "CLUSTER", "SLOTS")
_ASKING = pack("", "ASKING")
# The most redirections that a command follows.
_ROUNDS = 4
# While a server is away, the bridge asks the others for the holders of the slots at most once in this time.
_REST_S = 0.25
# Keys among which each server finds its own: with 16,384 slots, a server of 100 misses with a chance of 1e-9.
_KEYS_TRIED = 2_048
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
        self._keys: list[str] = []
        self._keys_of: Mapping[int, RedisServer] | None = None  # the holders of the slots when `_keys` were made
        self._learning = asyncio.Lock()
        self._learned_s = -inf

    @property
    def breakers(self) -> Iterable[Breaker]:
        return [server.breaker for server in self._servers.values()]

    async def ask(self, commands: Sequence[PackedCommand], *, timed: bool = False) -> list[Reply]:
        answers: list[Reply] = [None] * len(commands)
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

    async def ask_each(self, command: PackedCommand) -> list[Reply]:
        if self._failed or not self._by_slot:
            await self._learn()
        servers = set(self._by_slot.values())
        answers = await asyncio.gather(*(self._of(server, server.ask([command])) for server in servers))
        return [answer for (answer,) in answers]

    async def key_on_each(self, key: Callable[[int], str]) -> list[str]:
        if self._failed or not self._by_slot:
            await self._learn()
        if self._keys_of is not self._by_slot:
            # If no server holds some slot, the keys include one of that slot.
            keys = {self._by_slot.get(_slot(one)): one for one in map(key, reversed(range(_KEYS_TRIED)))}
            self._keys, self._keys_of = list(keys.values()), self._by_slot
        return self._keys

    def by_server(self, keys: Sequence[str]) -> list[list[int]]:
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

    def _place(self, command: PackedCommand, refusal: Reply) -> tuple[RedisServer, bool]:
        """Returns the server to ask, and whether the bridge must send ASKING before the command. It must if the
        previous answer was ASK, because another server is moving the key. `refusal`: the previous answer to the
        command, which may be a redirection."""
        if not isinstance(refusal, AskError):
            return self._holder(command.key), False
        return self._at(refusal.host, refusal.port), not isinstance(refusal, MovedError)

    async def _ask_each(
        self,
        groups: Mapping[tuple[RedisServer, bool], list[int]],
        commands: Sequence[PackedCommand],
        answers: list[Reply],
        timed: bool,
    ) -> None:
        async def ask(server: RedisServer, asking: bool, indexes: list[int]) -> None:
            own = [commands[at] for at in indexes]
            if asking:
                own = [sent for command in own for sent in (_ASKING, command)]
            received = await self._of(server, server.ask(own, timed=timed and not asking))
            for at, answer in zip(indexes, received[1::2] if asking else received, strict=True):
                if isinstance(answer, AskError | ClusterError):
                    self._refused(server, answer)
                if isinstance(answer, Exception) and not isinstance(answer, AskError | NoScriptError):
                    answers[at] = unavailable(server.title, answer, partly=self._has_others(server))
                else:
                    answers[at] = answer

        # Every call has a time limit, so waiting for all of them ends.
        ended = await asyncio.gather(
            *(ask(server, asking, indexes) for (server, asking), indexes in groups.items()), return_exceptions=True
        )
        for failure in ended:
            if failure is not None:
                raise failure

    async def _of(self, server: RedisServer, asked: Awaitable[Answer]) -> Answer:
        """Awaits an answer of the server, and turns its errors into StoreUnavailable.

        Raises:
            StoreUnavailable: the server failed; the text names it. `partly` says whether other servers answer.
        """
        try:
            return await asked
        except _FAILURES as error:
            self._failed.add(server)
            partly = self._has_others(server)
            if isinstance(error, StoreUnavailable):
                raise StoreUnavailable(str(error), partly=partly) from error
            raise unavailable(server.title, error, partly=partly) from error

    def _has_others(self, server: RedisServer) -> bool:
        """Returns whether there is another master that has not failed."""
        return bool(set(self._by_slot.values()) - self._failed - {server})

    def _refused(self, server: RedisServer, refusal: AskError | ClusterError) -> None:
        if isinstance(refusal, AskError):
            # A node leaves the host out if it does not know it. Then it is the node's own host.
            refusal.host = refusal.host or server.name.rpartition(":")[0]
        if isinstance(refusal, MovedError):
            self._by_slot = {**self._by_slot, refusal.slot_id: self._at(refusal.host, refusal.port)}
        elif isinstance(refusal, ClusterDownError):
            self._failed.add(server)

    async def _learn(self) -> None:
        """Asks the servers which master holds which slots. If none answers, the bridge keeps the masters that it
        knows."""
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

    async def _take_over(self, asked: RedisServer, rows: Reply) -> None:
        own_host = asked.name.rpartition(":")[0]
        by_slot: dict[int, RedisServer] = {}
        for first, last, master, *_ in map(several, several(rows)):
            host, port = several(master)[:2]
            # A node that does not know its own host leaves it out.
            holder = self._at(maybe(text, host) or own_host, whole(port))
            by_slot.update(dict.fromkeys(range(whole(first), whole(last) + 1), holder))
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
