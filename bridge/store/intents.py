"""Keeps the ids that the ingress gives to messages, from before it accepts them until it acknowledges them.

RabbitMQ redelivers a message that a bridge accepted and did not acknowledge. The next bridge finds here by which id it
was accepted. Without that it could not tell the message from another one with the same content.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from bridge.store.client import Store
from bridge.store.keys import Keys
from bridge.store.replies import fields, flag, scored

_LIFE_MS: Final = 3_600_000
_ALIVE_MS: Final = 5_000
"""A session that has not written for so long has ended. One that waits for Redis does not write either."""


@dataclass(frozen=True, slots=True)
class Intent:
    """`since_ms`: when the message came. Its record is not older."""

    fingerprint: str
    since_ms: int


@dataclass(frozen=True, slots=True)
class Found:
    """The intent of a session for a message. `note`: its name. `ended`: the session has ended, so the message may be
    any redelivered one of the same fingerprint."""

    session: str
    note: str
    intent: Intent
    ended: bool

    @property
    def id(self) -> str:
        """The id by which the message was accepted."""
        return self.note.partition(" ")[0]


def note(message_id: str, tag: int) -> str:
    """The name of a message's intent. One id may be noted for two messages of a session, which their tags tell
    apart."""
    return f"{message_id} {tag}"


class StoredIntents:
    """The intents of one session. Each method raises StoreUnavailable. Moments are Redis' in Unix ms."""

    def __init__(self, store: Store, keys: Keys, session: str) -> None:
        self._store = store
        self._keys = keys
        self._session = session
        self._own = keys.ingress_intents(session)

    async def begin(self, intents: Mapping[str, Intent], now_ms: int) -> None:
        """Notes intents by their names."""
        words = [word for name, intent in intents.items() for word in (name, _written(intent))]
        sessions = self._keys.ingress_sessions
        await self._store.commands(
            [
                ("HSET", self._own, *words),
                ("PEXPIRE", self._own, _LIFE_MS),
                ("ZREMRANGEBYSCORE", sessions, "-inf", now_ms - _LIFE_MS),
                ("ZADD", sessions, now_ms, self._session),
                ("PEXPIRE", sessions, _LIFE_MS),
            ]
        )

    async def done(self, notes: Collection[str]) -> None:
        """Forgets intents."""
        await self._store.command("HDEL", self._own, *notes)

    async def end(self, now_ms: int) -> None:
        """Lets others take the intents over at once."""
        await self._store.command("ZADD", self._keys.ingress_sessions, "XX", now_ms - _ALIVE_MS - 1, self._session)

    async def others(self, fingerprints: Collection[str], now_ms: int) -> list[Found]:
        """Returns the intents of other sessions for messages with these fingerprints."""
        listed = await self._store.command("ZRANGE", self._keys.ingress_sessions, 0, -1, "WITHSCORES")
        others = {name: at_ms for name, at_ms in scored(listed) if name != self._session}
        if not others:
            return []
        hashes = await self._store.commands([("HGETALL", self._keys.ingress_intents(name)) for name in others])
        return [
            Found(name, its_note, intent, ended=at_ms < now_ms - _ALIVE_MS)
            for (name, at_ms), intents in zip(others.items(), hashes, strict=True)
            for its_note, written in fields(intents).items()
            if (intent := _read(written.decode())).fingerprint in fingerprints
        ]

    async def take(self, found: Found) -> bool:
        """Takes an intent over from a session that has ended. False: another session was first."""
        return flag(await self._store.command("HDEL", self._keys.ingress_intents(found.session), found.note))


def _written(intent: Intent) -> str:
    return f"{intent.since_ms} {intent.fingerprint}"


def _read(written: str) -> Intent:
    since_ms, _, fingerprint = written.partition(" ")
    return Intent(fingerprint, int(since_ms))
