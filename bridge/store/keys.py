"""The keyspace: every key the bridge has in Redis.

    key                             type    what
    <prefix>/{<topic>}/m/<id>       string  a message's record, a msgpack array (fields: lua/_record.lua)
    <prefix>/{<topic>}/b/<id>       string  its envelope: content type, headers and body, JSON and bytes
    <prefix>/{<topic>}/waiting      zset    ids by due moment (Unix ms), one set a state: waiting, ready, leased, acked,
                                            expired, dead, deleted; an unconfirmed record stands in none
    <prefix>/{<topic>}/forget       zset    ids by the moment their record goes
    <prefix>/{<topic>}/policy       string  the topic's policy, JSON
    <prefix>/topics                 set     all topics ever used and not removed

All of a topic's keys share its hash tag, so each script's keys are in one slot of a Redis Cluster. No id has a slash.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

INDEXES = ("waiting", "ready", "leased", "acked", "expired", "dead", "deleted")


@dataclass(frozen=True, slots=True)
class Keys:
    """Names of keys under one prefix."""

    prefix: str

    @property
    def topics(self) -> str:
        return f"{self.prefix}/topics"

    def policy(self, topic: str) -> str:
        return f"{self.prefix}/{{{topic}}}/policy"

    def indexes(self, topic: str) -> tuple[str, ...]:
        """The seven indexes in the order of the states' codes, then `forget`."""
        return _indexes(self.prefix, topic)

    def record(self, topic: str, message_id: str) -> tuple[str, ...]:
        """The record, the envelope, and the topic's indexes: the keys of every script that touches one message."""
        base = f"{self.prefix}/{{{topic}}}/"
        return (f"{base}m/{message_id}", f"{base}b/{message_id}", *_indexes(self.prefix, topic))


@lru_cache(maxsize=4096)
def _indexes(prefix: str, topic: str) -> tuple[str, ...]:
    return tuple(f"{prefix}/{{{topic}}}/{name}" for name in (*INDEXES, "forget"))
