"""Loses calls of Redis, restarts it, and empties it."""

from __future__ import annotations

from collections.abc import Mapping

from tests.events import What
from tests.simulate.faults.target import Fault, Target
from tests.simulate.stage import REDIS
from tests.simulate.topics import ALL


class RedisFaults(Target):
    @property
    def kinds(self) -> Mapping[str, Fault]:
        return {
            "lose calls of Redis": self._lose_calls,
            "restart Redis": self._restart,
            "empty Redis": self._empty,
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
        self._note_forgetting()
        self._stage.redis.command("FLUSHALL")
        self._stage.redis.command("SCRIPT", "FLUSH")
        for history in self._histories:
            history.emptying()

    def _note_forgetting(self) -> None:
        """Notes that Redis begins to lose keys. It might list no dead letter any more, so they are noted before."""
        dead = {
            one.decode().partition("~")[0]
            for topic in ALL
            for one in self._stage.redis.command("ZRANGE", f"delay/{{{topic}}}/dead", 0, -1)
        }
        for history in self._histories:
            for key in dict.fromkeys(event.message_id for event in history.events):
                if key.partition("#")[0] in dead:
                    history.note(key, What.DEAD)
            history.emptying()
