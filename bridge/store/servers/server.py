"""One Redis server, or whichever is the master: a pool of connections, a breaker, and what its clock says."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from math import inf
from time import monotonic
from typing import Any

from redis.asyncio.connection import ConnectionPool, SSLConnection
from redis.exceptions import ResponseError
from redis.exceptions import TimeoutError as RedisTimeoutError

from bridge.model.breaker import Breaker, asking
from bridge.model.errors import StoreUnavailable
from bridge.store.clock import StoreClock
from bridge.store.servers.pipelines import Pipelines
from bridge.store.servers.servers import Question, packed

_TIME = packed("", "TIME")
_TIMEOUTS = (TimeoutError, RedisTimeoutError)


class Server:
    """Nothing is sent a second time by itself. While the breaker refuses, questions fail at once."""

    def __init__(self, pool: ConnectionPool, clock: StoreClock, *, timeout_s: float, name: str = "") -> None:
        """`name`: its address, where it is one of several."""
        self.name = name
        self.breaker = Breaker()
        self.breakers = (self.breaker,)
        over_tls = " over TLS" if issubclass(pool.connection_class, SSLConnection) else ""
        self._title = f"Redis {name}".strip() + over_tls
        self._pool = pool
        self._clock = clock
        self._timeout_s = timeout_s
        self._pipelines = Pipelines(self._ask_over_one, limit_s=timeout_s)

    async def ask(self, questions: Sequence[Question], *, timed: bool = False) -> list[Any]:
        return await self._pipelines.ask(questions, timed)

    async def _ask_over_one(self, questions: Sequence[Question], timed: bool) -> list[Any]:
        # redis-py's pipeline object costs twice this a call: it times out, counts and converts each answer by itself.
        payload = b"".join([question.packed for question in questions])
        answers: list[Any] = []
        with asking(self.breaker, self._title, StoreUnavailable, timeouts=_TIMEOUTS):
            sent_s = monotonic()
            # The limit covers the connection and its handshake too.
            async with asyncio.timeout(self._timeout_s):
                connection = await self._pool.get_connection()  # type: ignore[no-untyped-call]
                try:
                    await connection.send_packed_command(payload)
                    for _ in questions:
                        try:
                            answers.append(await connection.read_response(disable_decoding=True, timeout=inf))
                        except ResponseError as error:
                            answers.append(error)
                except BaseException:
                    # Its remaining answers would be taken for those of the next call.
                    await connection.disconnect(nowait=True)
                    raise
                finally:
                    await self._pool.release(connection)
        if timed and not isinstance(answers[0], Exception):
            self._clock.heard(answers[0][1], sent_s, monotonic(), self.name)
        return answers

    async def hear(self, keys: Sequence[str]) -> None:
        sent_s = monotonic()
        (answer,) = await self.ask([_TIME])
        if isinstance(answer, Exception):
            raise answer
        seconds, microseconds = answer
        self._clock.heard(int(seconds) * 1_000 + int(microseconds) // 1_000, sent_s, monotonic(), self.name)

    async def ask_each(self, question: Question) -> list[Any]:
        return await self.ask([question])

    def apart(self, keys: Sequence[str]) -> list[list[int]]:
        return [list(range(len(keys)))]

    async def rest(self) -> None:
        """Closes the connections that nobody uses."""
        await self._pool.disconnect(inuse_connections=False)

    async def close(self) -> None:
        await self._pool.aclose()
