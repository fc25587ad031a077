"""Names every key that the bridge has in Redis.

    key                             type    what
    <prefix>/{<topic>}/m/<id>       string  a message's record, a msgpack array (fields: lua/_record.lua)
    <prefix>/{<topic>}/b/<id>       string  a message's envelope, if that is too long for the record: content type,
                                            headers and body, JSON and bytes
    <prefix>/{<topic>}/a/<id>       string  for two seconds: the epoch of a copy that has reached its ready queue
    <prefix>/{<topic>}/waiting      zset    ids by due moment (Unix ms); another key for each further state: ready,
                                            leased, acked, expired, dead, deleted; none has unconfirmed records
    <prefix>/{<topic>}/forget       zset    ids by the moment when their record expires
    <prefix>/{<topic>}/labels       zset    the labels of messages, each with a due moment and an id, sorted by bytes
    <prefix>/{<topic>}/policy       string  the topic's policy, JSON
    <prefix>/{<topic>}/push/<id>    hash    counters of a subscription, and its latest failure
    <prefix>/{<topic>}/hold/<id>    string  exists while the pause of a receiver lasts
    <prefix>/{<topic>}/ingress      zset    the sessions of the ingress, by when each last wrote
    <prefix>/{<topic>}/ingress/<id> hash    the ids that a session gave to messages it has not acknowledged yet
    <prefix>/subscriptions          hash    subscriptions by topic, JSON; when each ended, and `/version`
    <prefix>/task-id                string  the next id of a task
    <prefix>/topics                 set     all topics that were used and not removed
    <prefix>/removed/{<prefix>/topics}
                                    zset    topics by the moments of their removals, for at least a minute
    <prefix>/index-buckets          string  the number of buckets of each topic's index
    <prefix>/tokens                 hash    tokens by id, JSON; and `version`, which changes with every write
    <prefix>/sessions/<id>          zset    a token's browser sessions: SHA-256 of each secret by its end, at most 20
    <prefix>/actions                stream  what operators did, the latest 10,000 or a few more, each as JSON
    <prefix>/{:bulk}/operations     zset    bulk operations by the moments of their begin
    <prefix>/{:bulk}/leases         zset    ids of running bulk operations, by the ends of their leases
    <prefix>/{:bulk}/operations/<id>
                                    hash    a bulk operation: its request, its counts, and where its next portion begins
    <prefix>/{:schedules}/names     zset    schedules by name
    <prefix>/{:schedules}/wakes     zset    names of schedules by the moment when each is to be planned next
    <prefix>/{:schedules}/leases    hash    names of leased schedules, each with the end of its lease
    <prefix>/{:schedules}/clock     string  the latest moment at which schedules were planned, to within ten seconds
    <prefix>/{:schedules}/of/<name> hash    a schedule: what is asked, its message, and how far it is planned
    <prefix>/{:schedules}/file      string  exists once the schedules of BRIDGE_SCHEDULES_FILE are stored
    <prefix>/{:probe:<n>}/probe     string  written to see whether a server takes writes; ends after ten seconds
    <prefix>/{:probe:<n>}/probe/set zset    the probe's script also writes an entry here, and removes it at once
    <prefix>/idempotency/{<token>}/answers
                                    hash    requests with an idempotency key, and their answers, by key; `bytes`: the
                                            size of all answers
    <prefix>/idempotency/{<token>}/begun
                                    zset    idempotency keys by the moment of their first request
    <prefix>/places/<id>            set     the topics in which an id may have a message, for wires whose ids have no
                                            topic
    <prefix>/rates/<id>/<direction> string  the recent requests of a token (lua/admit.lua)
    <prefix>/made/{<prefix>/topics}/<id>
                                    zset    the topics that a token with a limit has made (lua/count_topic.lua), in the
                                            slot of the list of topics
    <prefix>/names                  hash    the names that clients gave for topics that contain a digest, by topic
    <prefix>/lmstfy/tokens/<pool>/<namespace>
                                    hash    the lmstfy wire's tokens, each with its description
    <prefix>/lmstfy/limits          hash    the lmstfy wire's limits by pool/namespace/token, JSON
    <prefix>/lmstfy/rates/<pool>/<namespace>/<token>/<direction>
                                    string  the requests of a token in this window (lua/throttle.lua)
    <prefix>/lmstfy/names           hash    lmstfy names that are too long for a topic, by topic, JSON

All keys of a topic have the topic as hash tag, so each script's keys are in one slot of a Redis Cluster. No id has a
slash. With several buckets the hash tag of records, envelopes and indexes is `{<topic>:<bucket>}`. The bucket is a hash
of the id, and each bucket has its own indexes. So one topic is spread over several servers. No topic has a colon. If a
new message takes the id of a dead letter, the dead letter becomes `<id>~dead<nonce>`, in the same bucket. If Redis has
lost a message's record and another message took the id, the first message becomes `<id>~born<created_ms>`, in the same
bucket.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from zlib import crc32

from bridge.model.message import taken_id

INDEXES = ("waiting", "ready", "leased", "acked", "expired", "dead", "deleted")


@dataclass(frozen=True, slots=True)
class Keys:
    """The names of keys under one prefix. `buckets`: the number of buckets of each topic's index. It must never change
    under one prefix."""

    prefix: str
    buckets: int = 1

    @property
    def topics(self) -> str:
        return f"{self.prefix}/topics"

    @property
    def removed_topics(self) -> str:
        return f"{self.prefix}/removed/{{{self.topics}}}"

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

    def sessions(self, token_id: str) -> str:
        return f"{self.prefix}/sessions/{token_id}"

    @property
    def actions(self) -> str:
        return f"{self.prefix}/actions"

    @property
    def operations(self) -> str:
        return f"{self.prefix}/{{:bulk}}/operations"

    @property
    def operation_leases(self) -> str:
        return f"{self.prefix}/{{:bulk}}/leases"

    def operation(self, operation_id: str) -> str:
        return f"{self.operations}/{operation_id}"

    def ingress_sessions(self, topic: str) -> str:
        return f"{self.prefix}/{{{topic}}}/ingress"

    def ingress_intents(self, topic: str, session: str) -> str:
        return f"{self.ingress_sessions(topic)}/{session}"

    @property
    def schedules(self) -> str:
        return f"{self.prefix}/{{:schedules}}/names"

    @property
    def schedule_wakes(self) -> str:
        return f"{self.prefix}/{{:schedules}}/wakes"

    @property
    def schedule_leases(self) -> str:
        return f"{self.prefix}/{{:schedules}}/leases"

    @property
    def schedule_clock(self) -> str:
        return f"{self.prefix}/{{:schedules}}/clock"

    @property
    def schedules_file(self) -> str:
        return f"{self.prefix}/{{:schedules}}/file"

    def schedule(self, name: str) -> str:
        return f"{self.prefix}/{{:schedules}}/of/{name}"

    def probe(self, number: int) -> str:
        """Returns the key of the probe with this number. Keys of many numbers spread over all servers of a cluster."""
        return f"{self.prefix}/{{:probe:{number}}}/probe"

    def answers(self, token_id: str) -> tuple[str, str]:
        base = f"{self.prefix}/idempotency/{{{token_id}}}"
        return f"{base}/answers", f"{base}/begun"

    def place(self, message_id: str) -> str:
        return f"{self.prefix}/places/{message_id}"

    @property
    def given_names(self) -> str:
        return f"{self.prefix}/names"

    def rate(self, whose: str, direction: str) -> str:
        return f"{self.prefix}/rates/{whose}/{direction}"

    def made_topics(self, token_id: str) -> str:
        return f"{self.prefix}/made/{{{self.topics}}}/{token_id}"

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
        """Returns the keys of a bucket's seven state indexes in the order of the states' codes, then the keys of
        `forget` and `labels`."""
        return _bucket(self.prefix, topic, bucket, self.buckets)[1]

    def label_indexes(self, topic: str) -> list[str]:
        """Returns the key of each bucket's index of labels."""
        return [self.indexes(topic, bucket)[-1] for bucket in range(self.buckets)]

    def record(self, topic: str, message_id: str) -> tuple[str, ...]:
        """Returns the keys that each script about one message gets: the record, the envelope, and the indexes of its
        bucket."""
        base, indexes = _bucket(self.prefix, topic, self.bucket(message_id), self.buckets)
        return (f"{base}m/{message_id}", f"{base}b/{message_id}", *indexes)

    def arrival(self, topic: str, message_id: str) -> str:
        base, _ = _bucket(self.prefix, topic, self.bucket(message_id), self.buckets)
        return f"{base}a/{message_id}"

    def bucket(self, message_id: str) -> int:
        # Without the suffix: a dead letter whose id is used again keeps its bucket.
        return crc32(taken_id(message_id).encode()) % self.buckets if self.buckets > 1 else 0

    def home(self, topic: str, message_id: str) -> str:
        """Returns the home of the message: a key that all messages of its bucket share. The key is on the server that
        has the message."""
        return self.indexes(topic, self.bucket(message_id))[0]

    def homes(self, topic: str) -> list[str]:
        """Returns one key for each bucket. So each server with messages of the topic has at least one of the keys."""
        return [self.indexes(topic, bucket)[0] for bucket in range(self.buckets)]


@lru_cache(maxsize=16_384)
def _bucket(prefix: str, topic: str, bucket: int, buckets: int) -> tuple[str, tuple[str, ...]]:
    """Returns the prefix of the bucket's keys, and the keys of its indexes."""
    base = f"{prefix}/{{{topic}}}/" if buckets == 1 else f"{prefix}/{{{topic}:{bucket}}}/"
    return base, tuple(f"{base}{name}" for name in (*INDEXES, "forget", "labels"))
