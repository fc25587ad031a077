"""The keyspace: every key the bridge has in Redis.

    key                             type    what
    <prefix>/{<topic>}/m/<id>       string  a message's record, a msgpack array (fields: lua/_record.lua)
    <prefix>/{<topic>}/b/<id>       string  its envelope, where that is too long for the record: content type, headers
                                            and body, JSON and bytes
    <prefix>/{<topic>}/waiting      zset    ids by due moment (Unix ms), one set a state: waiting, ready, leased, acked,
                                            expired, dead, deleted; an unconfirmed record stands in none
    <prefix>/{<topic>}/forget       zset    ids by the moment their record goes
    <prefix>/{<topic>}/policy       string  the topic's policy, JSON
    <prefix>/{<topic>}/push/<id>    hash    what a subscription's processes have counted, and its latest failure
    <prefix>/{<topic>}/hold/<id>    string  there while a receiver is to be left alone
    <prefix>/subscriptions          hash    subscriptions by topic, JSON; when each ended, and `/version`
    <prefix>/task-id                string  the next id of a task
    <prefix>/topics                 set     all topics ever used and not removed
    <prefix>/index-buckets          string  in how many buckets the index of each topic is
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
With more than one bucket the hash tag of records, envelopes and indexes is `{<topic>:<bucket>}`, the bucket a hash of
the id, and each bucket has indexes of its own: so one topic is spread over the servers. No topic has a colon.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from zlib import crc32

INDEXES = ("waiting", "ready", "leased", "acked", "expired", "dead", "deleted")


@dataclass(frozen=True, slots=True)
class Keys:
    """Names of keys under one prefix. `buckets`: of each topic's index; never another number under one prefix."""

    prefix: str
    buckets: int = 1

    @property
    def topics(self) -> str:
        return f"{self.prefix}/topics"

    @property
    def index_buckets(self) -> str:
        return f"{self.prefix}/index-buckets"

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

    def indexes(self, topic: str, bucket: int) -> tuple[str, ...]:
        """A bucket's seven indexes in the order of the states' codes, then `forget`."""
        return _bucket(self.prefix, topic, bucket, self.buckets)[1]

    def record(self, topic: str, message_id: str) -> tuple[str, ...]:
        """The record, the envelope, and the indexes: the keys of every script that touches one message."""
        base, indexes = _bucket(self.prefix, topic, self.bucket(message_id), self.buckets)
        return (f"{base}m/{message_id}", f"{base}b/{message_id}", *indexes)

    def bucket(self, message_id: str) -> int:
        return crc32(message_id.encode()) % self.buckets if self.buckets > 1 else 0

    def home(self, topic: str, message_id: str) -> str:
        """A key on the server that has the message."""
        return self.indexes(topic, self.bucket(message_id))[0]

    def homes(self, topic: str) -> list[str]:
        """A key on each server that has messages of the topic."""
        return [self.indexes(topic, bucket)[0] for bucket in range(self.buckets)]


@lru_cache(maxsize=16_384)
def _bucket(prefix: str, topic: str, bucket: int, buckets: int) -> tuple[str, tuple[str, ...]]:
    """What its keys begin with, and its indexes."""
    base = f"{prefix}/{{{topic}}}/" if buckets == 1 else f"{prefix}/{{{topic}:{bucket}}}/"
    return base, tuple(f"{base}{name}" for name in (*INDEXES, "forget"))
