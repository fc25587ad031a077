"""The one place where Redis is talked to: runs calls in pipelines and translates the client's errors."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from math import inf
from time import monotonic
from typing import Any

from hiredis import pack_command
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import NoScriptError, RedisError, ResponseError
from redis.exceptions import TimeoutError as RedisTimeoutError

from bridge.breaker import Breaker, asking
from bridge.errors import StoreUnavailable
from bridge.store.clock import StoreClock
from bridge.store.scripts import SCRIPTS, Script

# Answers of a Redis that can't take writes now; anything else it refuses is a fault of ours.
_PASSING = ("OOM", "MISCONF", "READONLY", "LOADING", "MASTERDOWN", "CLUSTERDOWN", "NOREPLICAS", "BUSY", "TRYAGAIN")


@dataclass(frozen=True, slots=True)
class Call:
    """One script with its keys and arguments, ready to run."""

    script: Script
    keys: tuple[str, ...]
    args: tuple[Any, ...]


class Store:
    """A connection pool to Redis, its scripts, and its clock.

    Nothing is sent a second time by itself: a call that failed may have run, and the scripts are safe to run again.
    While the breaker refuses, calls fail at once.
    """

    def __init__(self, url: str, *, timeout_ms: int) -> None:
        self._timeout_s = timeout_ms / 1_000
        self._redis: Redis = Redis.from_url(
            url,
            socket_timeout=self._timeout_s,
            socket_connect_timeout=self._timeout_s,
            retry=Retry(NoBackoff(), 0),
            protocol=3,
            health_check_interval=0,
        )
        self.clock = StoreClock()
        self.breaker = Breaker()

    async def run(self, calls: Sequence[Call]) -> list[Any]:
        """Runs the calls in one round trip, in order; their answers as Redis gave them.

        Raises:
            StoreUnavailable: some of them may have run.
        """
        sent_s = monotonic()
        async with self._translated():
            answers = await self._pipeline(calls)
            missing = [at for at, answer in enumerate(answers) if isinstance(answer, NoScriptError)]
            if missing:
                await self._load({calls[at].script.name for at in missing})
                for at, answer in zip(missing, await self._pipeline([calls[at] for at in missing]), strict=True):
                    answers[at] = answer
            for answer in answers:
                if isinstance(answer, Exception):
                    raise answer
        if answers and calls[0].script.of_record:
            self.clock.heard(answers[0][1], sent_s, monotonic())
        return answers

    async def learn_clock(self) -> None:
        """Asks for the time, so that the clock is known."""
        sent_s = monotonic()
        async with self._translated():
            seconds, microseconds = await self._redis.time()
        self.clock.heard(seconds * 1_000 + microseconds // 1_000, sent_s, monotonic())

    async def command(self, *words: Any) -> Any:
        """Runs one plain command."""
        async with self._translated():
            return await self._redis.execute_command(*words)  # type: ignore[no-untyped-call]

    async def commands(self, commands: Sequence[Sequence[Any]]) -> None:
        """Runs plain commands in one round trip."""
        pipeline = self._redis.pipeline(transaction=False)
        for words in commands:
            pipeline.execute_command(*words)
        async with self._translated():
            await pipeline.execute()

    async def close(self) -> None:
        await self._redis.aclose()

    async def _pipeline(self, calls: Sequence[Call]) -> list[Any]:
        # redis-py's pipeline object costs twice this a call: it times out, counts and converts each answer by itself.
        payload = b"".join([pack_command(_words(call)) for call in calls])
        connection = await self._redis.connection_pool.get_connection()  # type: ignore[no-untyped-call]
        answers: list[Any] = []
        try:
            async with asyncio.timeout(self._timeout_s):
                await connection.send_packed_command(payload)
                for _ in calls:
                    try:
                        answers.append(await connection.read_response(disable_decoding=True, timeout=inf))
                    except ResponseError as error:
                        answers.append(error)
        except BaseException:
            # Its remaining answers would be taken for those of the next call.
            await connection.disconnect(nowait=True)
            raise
        finally:
            await self._redis.connection_pool.release(connection)
        return answers

    async def _load(self, names: set[str]) -> None:
        for name in names:
            await self._redis.script_load(SCRIPTS[name].text)

    @asynccontextmanager
    async def _translated(self) -> AsyncIterator[None]:
        try:
            with asking(self.breaker, "Redis", StoreUnavailable, timeouts=(TimeoutError, RedisTimeoutError)):
                yield
        except ResponseError as error:
            if str(error).startswith(_PASSING):
                raise StoreUnavailable(f"Redis takes no writes now: {error}") from error
            raise
        except (RedisError, OSError, TimeoutError) as error:
            raise StoreUnavailable(f"Redis did not answer: {type(error).__name__}") from error


def _words(call: Call) -> tuple[Any, ...]:
    return ("EVALSHA", call.script.sha, len(call.keys), *call.keys, *call.args)
