"""The keyspace: every key the bridge has in Redis.

    key                             type    what
    <prefix>/{<topic>}/m/<id>       string  a message's record, a msgpack array (fields: lua/_record.lua)
    <prefix>/{<topic>}/b/<id>       string  its envelope: content type, headers and body, JSON and bytes
    <prefix>/{<topic>}/waiting      zset    ids by due moment (Unix ms), one set a state: waiting, ready, leased, acked,
                                            expired, dead, deleted; an unconfirmed record stands in none
    <prefix>/{<topic>}/forget       zset    ids by the moment their record goes
    <prefix>/{<topic>}/policy       string  the topic's policy, JSON
    <prefix>/{<topic>}/push/<id>    hash    what a subscription's processes have counted, and its latest failure
    <prefix>/{<topic>}/hold/<id>    string  there while a receiver is to be left alone
    <prefix>/subscriptions          hash    subscriptions by topic, JSON; when each ended, and `/version`
    <prefix>/task-id                string  the next id of a task
    <prefix>/topics                 set     all topics ever used and not removed
    <prefix>/tokens                 hash    tokens by id, JSON; and `version`, another one after every change
    <prefix>/places/<id>            set     the topics in which an id may have a message, for wires whose ids are of
                                            no topic
    <prefix>/rates/<id>/<direction> string  the requests that a token has made of late (lua/admit.lua)
    <prefix>/lmstfy/tokens/<pool>/<namespace>
                                    hash    the lmstfy wire's tokens, and what each is for
    <prefix>/lmstfy/limits          hash    its limits by pool/namespace/token, JSON
    <prefix>/lmstfy/rates/<pool>/<namespace>/<token>/<direction>
                                    string  the requests of a token in this window (lua/throttle.lua)
    <prefix>/lmstfy/names           hash    its names that are too long for a topic, by topic, JSON

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

    @property
    def subscriptions(self) -> str:
        return f"{self.prefix}/subscriptions"

    def push_tally(self, topic: str, subscription_id: str) -> str:
        return f"{self.prefix}/{{{topic}}}/push/{subscription_id}"

    def push_hold(self, topic: str, receiver: str) -> str:
        return f"{self.prefix}/{{{topic}}}/hold/{receiver}"

    @property
    def task_id(self) -> str:
        return f"{self.prefix}/task-id"

    @property
    def tokens(self) -> str:
        return f"{self.prefix}/tokens"

    def place(self, message_id: str) -> str:
        return f"{self.prefix}/places/{message_id}"

    def rate(self, whose: str, direction: str) -> str:
        return f"{self.prefix}/rates/{whose}/{direction}"

    def lmstfy_tokens(self, pool: str, namespace: str) -> str:
        return f"{self.prefix}/lmstfy/tokens/{pool}/{namespace}"

    @property
    def lmstfy_limits(self) -> str:
        return f"{self.prefix}/lmstfy/limits"

    def lmstfy_rate(self, whose: str, direction: str) -> str:
        return f"{self.prefix}/lmstfy/rates/{whose}/{direction}"

    @property
    def lmstfy_names(self) -> str:
        return f"{self.prefix}/lmstfy/names"

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
