"""Keeps the ids that the ingress gives to messages, from before it accepts them until it acknowledges them.

The ingress takes messages from the queue `delay.in`. A session of the ingress lasts from the begin of its consuming
until its channel is lost.

RabbitMQ redelivers a message that a bridge accepted and did not acknowledge. The next bridge finds the message's id
here. Without the id the bridge could not tell the message from another message with equal content. The ids for a topic
are in one cluster slot, which the topic's name selects. So a server that is away holds up only the topics whose ids it
has.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from bridge.store.client import Store
from bridge.store.keys import Keys
from bridge.store.replies import fields, flag, scored

_LIFE_MS: Final = 3_600_000
_ALIVE_MS: Final = 5_000
"""A session that has written nothing for this long counts as ended. A session that waits for Redis writes nothing."""


@dataclass(frozen=True, slots=True)
class Intent:
    """The plan to accept one message. `fingerprint`: identifies the content. `since_ms`: a moment before the message
    was accepted, in Unix ms by Redis' clock. A record that was created earlier belongs to another message."""

    fingerprint: str
    since_ms: int


class Note(NamedTuple):
    """The key of an intent: the topic, the id under which the ingress accepts the message, and the message's delivery
    tag. Two messages of one ingress session may have equal ids. Their delivery tags then tell them apart."""

    topic: str
    id: str
    tag: int

    @property
    def name(self) -> str:
        return f"{self.id} {self.tag}"

    @classmethod
    def named(cls, topic: str, name: str) -> Note:
        message_id, _, tag = name.rpartition(" ")  # ids may have spaces
        return cls(topic, message_id, int(tag))


@dataclass(frozen=True, slots=True)
class Found:
    """An intent of another ingress session, found in Redis. `note`: the key of the intent. `ended`: the other session
    has ended, or wrote nothing for five seconds. RabbitMQ then redelivers the message of the intent. A redelivery with
    an equal fingerprint may be this message, or another one with equal content."""

    session: str
    note: Note
    intent: Intent
    ended: bool


class StoredIntents:
    """The intents of one session of the ingress. Each method raises StoreUnavailable if Redis does not answer. `now_ms`
    is the present moment. All moments are Unix ms by Redis' clock."""

    def __init__(self, store: Store, keys: Keys, session: str) -> None:
        self._store = store
        self._keys = keys
        self._session = session

    def by_server(self, topics: Sequence[str]) -> list[list[int]]:
        """Groups the topics by the Redis server that has their intents. Returns lists of indexes into `topics`."""
        return self._store.by_server([self._keys.ingress_sessions(topic) for topic in topics])

    async def begin(self, intents: Mapping[Note, Intent], now_ms: int, alive: Iterable[str] = ()) -> None:
        """Writes intents to Redis, and marks this session as alive for their topics. `alive`: further topics for which
        the session is marked as alive, because it still tries messages of these topics."""
        written: dict[str, list[str]] = {topic: [] for topic in alive}
        for note, intent in intents.items():
            written.setdefault(note.topic, []).extend((note.name, f"{intent.since_ms} {intent.fingerprint}"))
        commands: list[tuple[object, ...]] = []
        for topic, words in written.items():
            own, sessions = self._own(topic), self._keys.ingress_sessions(topic)
            if words:
                commands.append(("HSET", own, *words))
            commands += [
                ("PEXPIRE", own, _LIFE_MS),
                ("ZREMRANGEBYSCORE", sessions, "-inf", now_ms - _LIFE_MS),
                ("ZADD", sessions, now_ms, self._session),
                ("PEXPIRE", sessions, _LIFE_MS),
            ]
        await self._store.commands(commands)

    async def done(self, notes: Collection[Note]) -> None:
        """Removes intents from Redis."""
        names: dict[str, list[str]] = {}
        for note in notes:
            names.setdefault(note.topic, []).append(note.name)
        await self._store.commands([("HDEL", self._own(topic), *of_topic) for topic, of_topic in names.items()])

    async def end(self, topics: Iterable[str], now_ms: int) -> None:
        """Marks this session as ended for the topics, so that other sessions can take over its intents at once."""
        ended_ms = now_ms - _ALIVE_MS - 1
        await self._store.commands(
            [("ZADD", self._keys.ingress_sessions(topic), "XX", ended_ms, self._session) for topic in topics]
        )

    async def others(self, topics: Collection[str], fingerprints: Collection[str], now_ms: int) -> list[Found]:
        """Returns the intents of other sessions in these topics, if their fingerprint is one of `fingerprints`."""
        listed = await self._store.commands(
            [("ZRANGE", self._keys.ingress_sessions(topic), 0, -1, "WITHSCORES") for topic in topics]
        )
        others = [
            (topic, session, at_ms)
            for topic, sessions in zip(topics, listed, strict=True)
            for session, at_ms in scored(sessions)
            if session != self._session
        ]
        if not others:
            return []
        hashes = await self._store.commands(
            [("HGETALL", self._keys.ingress_intents(topic, session)) for topic, session, _ in others]
        )
        return [
            Found(session, Note.named(topic, name), intent, ended=at_ms < now_ms - _ALIVE_MS)
            for (topic, session, at_ms), intents in zip(others, hashes, strict=True)
            for name, written in fields(intents).items()
            if (intent := _read(written.decode())).fingerprint in fingerprints
        ]

    async def take(self, found: Found) -> bool:
        """Takes an intent over from a session that has ended. Returns False if another session was first."""
        key = self._keys.ingress_intents(found.note.topic, found.session)
        return flag(await self._store.command("HDEL", key, found.note.name))

    def _own(self, topic: str) -> str:
        return self._keys.ingress_intents(topic, self._session)


def _read(written: str) -> Intent:
    since_ms, _, fingerprint = written.partition(" ")
    return Intent(fingerprint, int(since_ms))
