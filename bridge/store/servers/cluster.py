"""The masters of a Redis Cluster: which of them a key lives on, and what they refuse because it lives elsewhere.

redis-py's own cluster client is not used: it asks again by itself what may have run, and drops every connection when
a slot moves. What a server says it has NOT run is asked again where it sends us (MOVED, ASK). TRYAGAIN is refused: it
lasts as long as the slot takes to be moved, and the caller knows best how long to wait.
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
from bridge.store.servers.server import Server
from bridge.store.servers.servers import Question, packed

Answer = TypeVar("Answer")

_SLOTS = packed("", "CLUSTER", "SLOTS")
_ASKING = packed("", "ASKING")
# As often one question is sent on from server to server.
_ROUNDS = 4
# While a server is away, the others are asked no more often who holds its slots.
_REST_S = 0.25
_FAILURES = (StoreUnavailable, RedisError, OSError, TimeoutError)


class Cluster:
    def __init__(self, seeds: Hosts, clock: StoreClock, make: Callable[[str, int], Server]) -> None:
        """`seeds`: nodes that are asked for the others. `make`: a server from its host and port."""
        self._clock = clock
        self._make = make
        self._seeds = seeds
        self._servers: dict[tuple[str, int], Server] = {}
        self._by_slot: Mapping[int, Server] = {}
        self._failed: set[Server] = set()
        self._learning = asyncio.Lock()
        self._learned_s = -inf

    @property
    def breakers(self) -> Iterable[Breaker]:
        return [server.breaker for server in self._servers.values()]

    async def ask(self, questions: Sequence[Question], *, timed: bool = False) -> list[Any]:
        answers: list[Any] = [None] * len(questions)
        left: Sequence[int] = range(len(questions))
        for _ in range(_ROUNDS):
            if self._failed or not self._by_slot:
                await self._learn()
            groups: dict[tuple[Server, bool], list[int]] = {}
            for at in left:
                groups.setdefault(self._place(questions[at], answers[at]), []).append(at)
            await self._ask_each(groups, questions, answers, timed)
            left = [at for at in left if isinstance(answers[at], AskError)]
            if not left:
                return answers
        raise StoreUnavailable("Redis Cluster sends a key from one server to the other", partly=True)

    async def hear(self, keys: Sequence[str]) -> None:
        if self._failed or not self._by_slot:
            await self._learn()
        servers = {self._holder(key) for key in keys} or set(self._by_slot.values())
        heard = await asyncio.gather(*(self._of(one, one.hear(())) for one in servers), return_exceptions=True)
        failures = [failure for failure in heard if failure is not None]
        if failures and (keys or len(failures) == len(servers)):
            raise failures[0]

    async def ask_each(self, question: Question) -> list[Any]:
        if self._failed or not self._by_slot:
            await self._learn()
        servers = set(self._by_slot.values())
        asked = await asyncio.gather(*(self._of(one, one.ask([question])) for one in servers))
        return [answer for (answer,) in asked]

    def apart(self, keys: Sequence[str]) -> list[list[int]]:
        groups: dict[Server | None, list[int]] = {}
        for at, key in enumerate(keys):
            groups.setdefault(self._by_slot.get(_slot(key)), []).append(at)
        return list(groups.values())

    async def close(self) -> None:
        await asyncio.gather(*(server.close() for server in self._servers.values()))

    def _at(self, host: str, port: int) -> Server:
        if (host, port) not in self._servers:
            self._servers[host, port] = self._make(host, port)
        return self._servers[host, port]

    def _holder(self, key: str) -> Server:
        server = self._by_slot.get(_slot(key))
        if server is None:
            raise StoreUnavailable("no server of Redis Cluster holds the slot of the key", partly=True)
        return server

    def _place(self, question: Question, refusal: AskError | None) -> tuple[Server, bool]:
        """The server to ask, and whether it has to be told that another one, which is moving the key, sends us."""
        if refusal is None:
            return self._holder(question.key), False
        return self._at(refusal.host, refusal.port), not isinstance(refusal, MovedError)

    async def _ask_each(
        self,
        groups: Mapping[tuple[Server, bool], list[int]],
        questions: Sequence[Question],
        answers: list[Any],
        timed: bool,
    ) -> None:
        async def ask(server: Server, asking: bool, places: list[int]) -> None:
            own = [questions[at] for at in places]
            if asking:
                own = [one for question in own for one in (_ASKING, question)]
            found = await self._of(server, server.ask(own, timed=timed and not asking))
            for at, answer in zip(places, found[1::2] if asking else found, strict=True):
                answers[at] = answer
                if isinstance(answer, AskError | ClusterError):
                    self._refused(server, answer)

        # Each has its time limit, so that all of them are waited for.
        ended = await asyncio.gather(*(ask(*one, places) for one, places in groups.items()), return_exceptions=True)
        for failure in ended:
            if failure is not None:
                raise failure

    async def _of(self, server: Server, asked: Awaitable[Answer]) -> Answer:
        """
        Raises:
            StoreUnavailable: names the server, and says whether others answer.
        """
        try:
            return await asked
        except _FAILURES as error:
            self._failed.add(server)
            refused = isinstance(error, StoreUnavailable)
            why = (
                str(error)
                if refused
                else f"Redis {server.name} did not answer: {tls_failure(error) or type(error).__name__}"
            )
            raise StoreUnavailable(why, partly=bool(set(self._by_slot.values()) - self._failed)) from error

    def _refused(self, server: Server, refusal: AskError | ClusterError) -> None:
        if isinstance(refusal, AskError):
            # A node that does not know the other's address leaves it out: it is its own.
            refusal.host = refusal.host or server.name.rpartition(":")[0]
        if isinstance(refusal, MovedError):
            self._by_slot = {**self._by_slot, refusal.slot_id: self._at(refusal.host, refusal.port)}
        elif isinstance(refusal, ClusterDownError):
            self._failed.add(server)

    async def _learn(self) -> None:
        """Asks who holds which slots; without an answer, what was known goes on to count."""
        async with self._learning:
            if self._by_slot and monotonic() - self._learned_s < _REST_S:
                return
            masters = set(self._by_slot.values())
            known = [*sorted(masters, key=lambda one: (one in self._failed, one.breaker.state)), *self._seeded()]
            failure: Exception | None = None
            for server in known:
                try:
                    (rows,) = await server.ask([_SLOTS])
                    if isinstance(rows, ResponseError):
                        raise StoreUnavailable(f"{server.name} is no node of a Redis Cluster: {rows}")
                except _FAILURES as error:
                    failure = error
                    continue
                self._learned_s = monotonic()
                await self._take_over(server, rows)
                return
            self._learned_s = monotonic()
            if not self._by_slot and failure is not None:
                raise failure

    def _seeded(self) -> list[Server]:
        return [self._at(*seed) for seed in self._seeds]

    async def _take_over(self, asked: Server, rows: Sequence[Any]) -> None:
        here = asked.name.rpartition(":")[0]
        by_slot: dict[int, Server] = {}
        for first, last, (host, port, *_), *_ in rows:
            # A node that does not know its own address leaves it out.
            holder = self._at(host.decode() if host else here, port)
            by_slot.update(dict.fromkeys(range(first, last + 1), holder))
        self._by_slot = by_slot
        masters = set(by_slot.values())
        self._failed.clear()
        self._clock.only({server.name for server in masters})
        kept = masters | set(self._seeded())
        gone = [address for address, server in self._servers.items() if server not in kept]
        for address in gone:
            with suppress(*_FAILURES):
                await self._servers.pop(address).rest()


def _slot(key: str) -> int:
    return key_slot(key.encode())
