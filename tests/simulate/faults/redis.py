"""Loses calls of Redis, restarts it, lets it refuse writes, and lets it forget."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from tests.events import What
from tests.simulate.faults.target import Fault, Target
from tests.simulate.stage import REDIS
from tests.simulate.topics import ALL


class RedisFaults(Target):
    _is_busy = False

    @property
    def kinds(self) -> Mapping[str, Fault]:
        return {
            "lose calls of Redis": self._lose_calls,
            "restart Redis": self._restart,
            "empty Redis": self._empty,
            "fail over Redis": self._fail_over,
            "fill Redis": self._fill,
            "demote Redis": self._demote,
            "lose Redis' replicas": self._lose_replicas,
        }

    async def _lose_calls(self) -> None:
        """Loses calls of Redis before they run, or their answers."""
        share = self._random.choice((0.02, 0.1, 0.3))
        chance = self._random

        def fate() -> str:
            return chance.choice(("lost", "answer lost")) if chance.random() < share else ""

        self._stage.redis.fate = fate
        await self._wait(0.5, 4.0)
        self._stage.redis.fate = str

    async def _restart(self) -> None:
        """Redis is away, and keeps its keys."""
        await self._away(REDIS)

    async def _empty(self) -> None:
        """Redis loses its keys."""
        with self._alone() as is_alone:
            if is_alone:
                self._note_dead()
                self._stage.redis.empty()
                self._note_forgetting()

    async def _fail_over(self) -> None:
        """A replica takes over that lacks the latest writes."""
        with self._alone() as is_alone:
            if is_alone:
                self._stage.redis.replicate()
                await self._wait(0.0, 2.0)
                self._note_dead()
                await self._away(REDIS)
                self._stage.redis.fail_over()
                self._note_forgetting()

    async def _fill(self) -> None:
        """Redis' memory is full."""
        await self._refuse(("CONFIG", "SET", "maxmemory", "1"), ("CONFIG", "SET", "maxmemory", "0"))

    async def _demote(self) -> None:
        """Redis is a replica for a while, and takes no writes."""
        await self._refuse(("REPLICAOF", "127.0.0.1", "1"), ("REPLICAOF", "NO", "ONE"))

    async def _lose_replicas(self) -> None:
        """Redis refuses writes, as it has too few replicas. With a full disk it refuses them at the same place."""
        name = "min-replicas-to-write"
        await self._refuse(("CONFIG", "SET", name, "1"), ("CONFIG", "SET", name, "0"))

    async def _refuse(self, begin: tuple[str, ...], end: tuple[str, ...]) -> None:
        with self._alone() as is_alone:
            if is_alone:
                self._stage.redis.command(*begin)
                try:
                    await self._wait(0.3, 4.0)
                finally:
                    self._stage.redis.command(*end)

    @contextmanager
    def _alone(self) -> Iterator[bool]:
        """Yields whether no other fault of Redis' data goes on. Redis could not carry out both."""
        is_alone, self._is_busy = not self._is_busy, True
        try:
            yield is_alone
        finally:
            self._is_busy = not is_alone

    def _note_forgetting(self) -> None:
        self._stage.may_lack_copies = True
        for history in self._histories:
            history.emptying()
            history.emptying()

    def _note_dead(self) -> None:
        """Notes the dead letters, as Redis might not list them any more."""
        dead = {
            one.decode().partition("~")[0]
            for topic in ALL
            for one in self._stage.redis.command("ZRANGE", f"delay/{{{topic}}}/dead", 0, -1)
        }
        for history in self._histories:
            for key in dict.fromkeys(event.message_id for event in history.events):
                if key.partition("#")[0] in dead:
                    history.note(key, What.DEAD)
