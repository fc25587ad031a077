"""Talks to one Redis server, or to the present master, through a pool of connections and a breaker."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
from time import monotonic

from redis.asyncio.connection import ConnectionPool, SSLConnection
from redis.exceptions import RedisError, ResponseError
from redis.exceptions import TimeoutError as RedisTimeoutError

from bridge.model.breaker import Breaker, guarded
from bridge.model.errors import StoreUnavailable
from bridge.model.time_limit import TimeLimit
from bridge.store.clock import StoreClock
from bridge.store.replies import Reply, several, whole
from bridge.store.servers.pipelines import Pipelines
from bridge.store.servers.refusals import renews
from bridge.store.servers.servers import PackedCommand, pack

_TIME = pack("", "TIME")
_TIMEOUTS = (TimeoutError, RedisTimeoutError)


class RedisServer:
    """Sends each command once to one server. While the breaker refuses calls, commands fail at once."""

    def __init__(
        self, pool: ConnectionPool, clock: StoreClock, *, timeout_s: float, address: str, name: str = ""
    ) -> None:
        """`address`: where the server is, for error texts. `name`: host and port, if this is one of several servers."""
        self.name = name
        self.breaker = Breaker()
        self.breakers = (self.breaker,)
        over_tls = " over TLS" if issubclass(pool.connection_class, SSLConnection) else ""
        self.title = f"Redis at {address}{over_tls}"
        self._pool = pool
        self._clock = clock
        self._timeout_s = timeout_s
        self._pipelines = Pipelines(self._ask_over_one, limit_s=timeout_s)

    async def ask(self, commands: Sequence[PackedCommand], *, timed: bool = False) -> list[Reply]:
        return await self._pipelines.ask(commands, timed)

    async def _ask_over_one(self, commands: Sequence[PackedCommand], timed: bool) -> list[Reply]:
        try:
            answers = await self._answers_over_one(commands, timed)
        except RedisError as error:
            if renews(error):
                await self.close_idle()
            raise
        if any(isinstance(answer, Exception) and renews(answer) for answer in answers):
            await self.close_idle()
        return answers

    async def _answers_over_one(self, commands: Sequence[PackedCommand], timed: bool) -> list[Reply]:
        # redis-py's pipeline object costs twice as much a call, because it times and converts each answer separately.
        payload = b"".join([command.packed for command in commands])
        answers: list[Reply] = []
        limit_s = self._timeout_s  # with the connection and its handshake
        with guarded(self.breaker, self.title, StoreUnavailable, limit_s=limit_s, timeouts=_TIMEOUTS):
            sent_s = monotonic()
            async with TimeLimit(limit_s):
                connection = await self._pool.get_connection()  # type: ignore[no-untyped-call]
                try:
                    await connection.send_packed_command(payload)
                    for _ in commands:
                        try:
                            answers.append(await connection.read_response(disable_decoding=True, timeout=inf))
                        except ResponseError as error:
                            answers.append(error)
                except BaseException:
                    # The next call would take the connection's remaining answers for its own.
                    await connection.disconnect(nowait=True)
                    raise
                finally:
                    await self._pool.release(connection)
        if timed and isinstance(first := answers[0], list):
            self._clock.heard(first[1], sent_s, monotonic(), self.name)
        return answers

    async def learn_time(self, keys: Sequence[str]) -> None:
        sent_s = monotonic()
        (answer,) = await self.ask([_TIME])
        if isinstance(answer, Exception):
            raise answer
        seconds, microseconds = map(whole, several(answer))
        self._clock.heard(seconds * 1_000 + microseconds // 1_000, sent_s, monotonic(), self.name)

    async def ask_each(self, command: PackedCommand) -> list[Reply]:
        return await self.ask([command])

    async def key_on_each(self, key: Callable[[int], str]) -> list[str]:
        return [key(0)]

    def by_server(self, keys: Sequence[str]) -> list[list[int]]:
        return [list(range(len(keys)))]

    async def close_idle(self) -> None:
        """Closes the connections that are not in use. The next callers open new connections, perhaps to another
        server."""
        await close_idle(self._pool)

    async def close(self) -> None:
        await self._pool.aclose()


async def close_idle(pool: ConnectionPool) -> None:
    """Closes the pool's idle connections.

    Does not use `ConnectionPool.disconnect`, which waits for the end of each connection. Meanwhile the pool would give
    that connection to callers, and their commands would fail.
    """
    for connection in [*pool._available_connections]:
        await connection.disconnect(nowait=True)
