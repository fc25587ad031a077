"""Defines every setting of a bridge: its kind, its default and its meaning.

`make docs` writes the meanings into docs/operating/settings.md, so their links are relative to docs/operating/.
"""

from __future__ import annotations

import os
from functools import cached_property
from pathlib import Path
from ssl import SSLContext
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator
from pydantic_settings import BaseSettings, InitSettingsSource, PydanticBaseSettingsSource, SettingsConfigDict

from bridge.model.tls import check_server_files, client_context
from bridge.model.values import LARGEST_BODY, LONGEST_DEFAULT_BACKOFF_MS, Backoff, Defaults
from bridge.settings.given import given_settings
from bridge.settings.kinds import (
    Accounts,
    Address,
    AmqpUrl,
    Bytes,
    DurationMs,
    ExchangeNames,
    ManagementUrl,
    PemFile,
    PoolsByName,
    PortOrNone,
    PushAllow,
    RedisUrl,
    RolesOption,
    Seconds,
    TaskServices,
    Unit,
)
from bridge.settings.pools import DEFAULT, check_nothing_shared
from bridge.settings.roles import EVERY_ROLE

_BESIDE_ONE_BODY_BYTES = 256 * 1024  # headers and ids, or the receipts of an ack
_BESIDE_BODIES_BYTES = 1024 * 1024
_BACKOFF_FACTOR = 2.0


class Settings(BaseSettings):
    """The settings of a bridge. A value that the caller passes overrides the operator's value.

    Read them with `bridge.settings.reading.read`, whose error names each wrong setting.
    """

    model_config = SettingsConfigDict(extra="forbid", hide_input_in_errors=True)

    amqp_url: AmqpUrl = "amqp://guest:guest@127.0.0.1:5672"
    """RabbitMQ's URL with user, password and virtual host; for a [cluster](clusters.md#a-cluster-of-rabbitmq), one URL
    for each node, separated by commas. Without a path, or with the path `/`, the virtual host is `/`. Each URL may end
    with `?heartbeat=5` (seconds, 0 for none) and `auth=external` (by certificate)"""
    redis_url: RedisUrl = "redis://127.0.0.1:6379/0"
    """URL of Redis: one server, Sentinel or a Redis Cluster ([forms](clusters.md#redis-one-server-sentinel-cluster))"""
    management_url: ManagementUrl = None
    """URL of RabbitMQ's management API, with user and password; unset: the bridge does not check arguments, bindings
    and policies of its objects ([health](runbook.md#health))"""
    pools: PoolsByName = None
    """further pairs of RabbitMQ and Redis, and their namespaces ([pools](clusters.md#pools))"""
    tls_ca: PemFile = None
    """the authority that signs the servers' certificates; the system's if unset ([TLS](security.md#tls))"""
    tls_cert: PemFile = None
    """the bridge's own certificate, for servers that ask for one"""
    tls_key: PemFile = None
    """the private key of `BRIDGE_TLS_CERT`; unset: the certificate's file holds it"""
    roles: RolesOption = EVERY_ROLE
    """the kinds of work that this process does, with commas between them ([roles](sizing.md#roles))"""
    workers: Annotated[int, Field(ge=1, le=64), Unit("processes")] = 1
    """worker processes behind the same ports; from 2 on, one runs only the checkpoint ([several
    processes](sizing.md#several-processes))"""
    http_host: Address = "127.0.0.1"
    """address on which the API listens"""
    http_port: Annotated[int, Field(ge=0, le=65_535), Unit("port")] = 8080
    """port on which the API listens"""
    reuse_port: bool = False
    """lets several processes listen on the same port; the kernel spreads the connections"""
    http_cert: PemFile = None
    """the certificate of the bridge's port, with its chain; the port then speaks https ([TLS](security.md#tls))"""
    http_key: PemFile = None
    """the key of `BRIDGE_HTTP_CERT`, if a separate file holds it"""
    access: Literal["tokens", "open"] | None = None
    """whether a request needs a [token](security.md#tokens); unset: open on loopback, on other addresses the process
    exits with code 2"""
    tokens_file: Annotated[Path | None, Unit("JSON file")] = None
    """the tokens of HTTP clients, in place of the tokens in Redis"""
    max_connections: Annotated[int, Field(ge=1), Unit("connections")] = 4_096
    """the most open connections of this process ([request limits](security.md#request-limits))"""
    max_buffered: Annotated[int, Field(ge=1024 * 1024), Unit("bytes")] = 64 * 1024 * 1024
    """the most bytes of the bodies of all large requests of this process together; as many again of answers that
    clients have not read ([request limits](security.md#request-limits)); at least 1 MiB"""
    max_head: Annotated[int, Field(ge=1_024, le=1024 * 1024), Unit("bytes")] = 32 * 1024
    """the most bytes of a request's first line and headers (else 431); a path with its query may use a quarter (else
    414)"""
    client_timeout: DurationMs = 20_000
    """time limit for a request's whole head, each 64 KiB of its body (else 408), and the reading of each 64 KiB of an
    answer"""
    keep_alive: DurationMs = 75_000
    """longest idle time of a connection between requests; longer than the 60 s of usual clients and load balancers"""

    prefix: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,40}$"), Unit("name")] = "delay"
    """prefix of all names of the wheel; another prefix is another wheel"""
    ready_prefix: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]{1,40}$"), Unit("name")] = "ready."
    """prefix of a ready queue's name"""
    dead_prefix: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]{1,40}$"), Unit("name")] = "dead."
    """prefix of a dead-letter queue's name"""
    redis_prefix: Annotated[str, Field(pattern=r"^[^{}/]{1,40}$"), Unit("name")] = "delay"
    """prefix of all keys in Redis"""
    lanes: Annotated[int, Field(ge=1, le=64), Unit("lanes")] = 1
    """wheels side by side, 1 to 64; a message's id selects its [lane](../topology.md#lanes)"""
    index_buckets: Annotated[int, Field(ge=1, le=256), Unit("buckets")] = 1
    """buckets of each topic's index and records, 1 to 256; they spread a topic over a [Redis
    Cluster](clusters.md#redis-one-server-sentinel-cluster); all bridges must use the number of the first"""
    delivery_limit: Annotated[int, Field(ge=1), Unit("deliveries")] = 20
    """deliveries to AMQP consumers before RabbitMQ dead-letters a message from its ready queue; fixed when the queue is
    declared"""

    keep_body_max: Bytes = 64 * 1024
    """the largest body that Redis keeps; a message without its body in Redis can't be shown whole, run now or moved
    earlier; 0 keeps none; a topic's `keep_body_max` has precedence"""
    wire_keep_body_max: Annotated[Annotated[int, Field(ge=0)] | None, Unit("bytes")] = None
    """the largest body that is kept of a message sent over a [wire](../wires.md); unset: `BRIDGE_MAX_BODY`, see
    [sizing](sizing.md#capacity)"""
    max_body: Annotated[int, Field(ge=1, le=LARGEST_BODY), Unit("bytes")] = 1024 * 1024
    """the largest body of a message; a larger one is refused (413); at most 16 MiB"""
    max_retry: Annotated[int, Field(ge=0, le=10_000), Unit("deliveries")] = 3
    """deliveries after the first, if message and topic set no number"""
    ttl: DurationMs = 0
    """time to live after the due moment, if message and topic set none; 0: none; not over a [wire](../wires.md)"""
    backoff_first: Annotated[DurationMs, Field(le=LONGEST_DEFAULT_BACKOFF_MS)] = 1_000
    """wait before the first retry, if the topic sets no back-off; each further wait is twice as long; 0: failed
    messages are ready again at once ([retries](../guarantees.md#retries))"""
    backoff_max: Annotated[DurationMs, Field(le=LONGEST_DEFAULT_BACKOFF_MS)] = 300_000
    """longest wait of the default back-off, before up to a quarter is added; at most 30 days"""
    lease: DurationMs = 30_000
    """lease of a pull, if pull and topic set none"""
    lease_copy_after: Annotated[DurationMs, Field(le=60_000)] = 2_000
    """how long after a pull a message gets a lease copy; one that is settled sooner needs none; at most 1m; `0`: each
    message has a lease copy at once ([leases](../guarantees.md#the-protocol))"""
    retention: DurationMs = 3_600_000
    """how long an ended message can be looked up; `BRIDGE_TOMBSTONE_RETENTION` counts for a deleted one"""
    tombstone_retention: DurationMs = 7 * 86_400_000
    """how long the record of a deleted message, or of a ready message without a recorded ack, is kept; must be longer
    than any outage of the broker"""
    idempotency_kept: DurationMs = 24 * 3_600_000
    """how long a key in the header `Idempotency-Key` and its answer are kept ([how](../sending.md#idempotency-key))"""
    idempotency_keys: Annotated[int, Field(ge=1, le=10_000_000), Unit("keys")] = 100_000
    """the most idempotency keys that are kept of one token, each with an answer of 1 KiB on average; the oldest keys
    are removed first"""
    timeline: bool = True
    """keeps the last 16 transitions of each message ([timelines](../redis.md#timelines))"""

    bundles: bool = True
    """copies whose due moments lie near each other share one AMQP message ([bundles](../topology.md#bundles)); the
    bridge reads bundles with either value"""

    store_timeout: DurationMs = 1_500
    """time limit for an answer from Redis"""
    broker_timeout: DurationMs = 1_500
    """time limit for a publisher confirm; a call that waits for Redis and RabbitMQ is refused 0.4 s after the longer
    limit (after at least 1.9 s)"""
    checkpoint_prefetch: Annotated[int, Field(ge=1, le=65_535), Unit("AMQP messages")] = 4_000
    """prefetch of a lane's checkpoint; a [bundle](../topology.md#bundles) counts as one"""
    checkpoint_batch: Annotated[int, Field(ge=1), Unit("messages")] = 250
    """the most messages that the checkpoint releases together"""
    audit_every: DurationMs = 60_000
    """interval between audits, which find lost copies; 0: never"""
    audit_grace: DurationMs = 60_000
    """a copy that is later than this counts as lost"""
    verify_every: DurationMs = 60_000
    """interval between checks of the servers; 0: at start only"""
    schedules_file: Annotated[Path | None, Unit("TOML or JSON file")] = None
    """the schedules that a process with the role `checkpoint` stores at its start, and again after Redis was emptied
    ([the file](../schedules.md#the-file))"""
    drain: DurationMs = 500
    """how long the bridge takes calls after SIGTERM; meanwhile `/health/ready` answers 503 and each answer closes its
    connection"""
    grace: DurationMs = 10_000
    """how long running work may take to end after SIGTERM and `BRIDGE_DRAIN`"""

    push_allow: PushAllow = None
    """receivers that callbacks may call besides public addresses ([callbacks](security.md#callbacks))"""
    camellia: bool = True
    """serves [camellia's wire](../wires.md)"""
    ouqiang: bool = True
    """serves [ouqiang's wire](../wires/youzan.md#ouqiangdelay-queue)"""
    changsongl: bool = True
    """serves [changsongl's wire](../wires/youzan.md#changsongldelay-queue)"""
    youzan: bool = True
    """serves [Youzan's wire](../wires/youzan.md#youzans-commands)"""
    tasks: bool = True
    """serves [the task wire](../wires/tasks.md)"""
    task_retention: DurationMs = 3 * 86_400_000
    """how long a consumed task can be read by its number"""
    task_services: TaskServices = None
    """the services that tasks may name: `{"name": {"url": …, "secret": …}}`"""
    lmstfy: bool = True
    """serves [lmstfy's wire](../wires/lmstfy.md) under `/api/`"""
    lmstfy_port: PortOrNone = None
    """second port of `BRIDGE_HTTP_HOST`, for lmstfy's API alone; lmstfy itself listens on 7777"""
    lmstfy_admin_port: PortOrNone = None
    """port for lmstfy's admin calls; unset: they are not served; lmstfy itself listens on 7778"""
    lmstfy_admin_host: Address = "127.0.0.1"
    """address of the admin port; an address other than loopback needs accounts"""
    lmstfy_accounts: Accounts = None
    """accounts of the admin port: `{"user": "password"}`; unset: anybody who can connect, but no [page of another
    site](security.md#tokens)"""
    lmstfy_skip_verification: bool = False
    """requests on lmstfy's wire need no token"""
    lmstfy_delay_seconds: Seconds = 0
    """delay of a job whose publish sets none"""
    lmstfy_ttl_seconds: Seconds = 86_400
    """time to live of a job whose publish sets none, counted from the publish; 0: unlimited"""
    lmstfy_tries: Annotated[int, Field(ge=1, lt=2**16), Unit("deliveries")] = 1
    """deliveries of a job whose publish sets no number"""
    lmstfy_ttr_seconds: Seconds = 120
    """lease of a consume that sets none, lmstfy's time to run"""
    lmstfy_timeout_seconds: Seconds = 0
    """how long a consume that sets no timeout waits for a job"""
    door_host: Address = "127.0.0.1"
    """address on which [`delaybridge door`](../migrating.md#the-door) listens"""
    door_port: Annotated[int, Field(ge=0, le=65_535), Unit("port")] = 5670
    """port of the door for AMQP clients"""
    door_status_port: Annotated[int, Field(ge=0, le=65_535), Unit("port")] = 8670
    """port for the door's health and metrics"""
    door_cert: PemFile = None
    """the certificate of the door, with its chain; the port for clients then speaks TLS"""
    door_key: PemFile = None
    """the key of `BRIDGE_DOOR_CERT`, if a separate file holds it"""
    door_max_connections: Annotated[int, Field(ge=1, le=65_535), Unit("connections")] = 1_024
    """the most clients of a door; further connections are closed at once"""
    door_plain: ExchangeNames = None
    """exchanges, with commas between them, to which publishes with an `x-delay` pass unchanged"""
    access_log: bool = False
    """logs one line for each request ([the access log](runbook.md#the-access-log))"""
    metrics_topics: Annotated[int, Field(ge=0, le=10_000), Unit("topics")] = 200
    """topics with a label in `/metrics`, at most 10000; all others share `_other` ([metrics](../metrics.md#topics))"""
    log_format: Literal["json", "console"] = "json"
    """form of the log"""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """lowest level that is logged"""

    @classmethod
    def settings_customise_sources(
        cls, settings_cls: type[BaseSettings], init_settings: PydanticBaseSettingsSource, *_: object, **__: object
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Reads the operator's settings from `given_settings` alone. The sources of pydantic-settings would not keep
        where a value came from."""
        given = given_settings(os.environ, cls.model_fields)
        return init_settings, InitSettingsSource(settings_cls, {name: one.text for name, one in given.items()})

    @model_validator(mode="after")
    def _files_can_be_used(self) -> Self:
        if self.tls_ca or self.tls_cert or self.tls_key:
            _ = self.tls
        check_server_files("BRIDGE_HTTP", self.http_cert, self.http_key)
        check_server_files("BRIDGE_DOOR", self.door_cert, self.door_key)
        return self

    @model_validator(mode="after")
    def _pools_share_nothing(self) -> Self:
        by_pool = {name: self.of_pool(name) for name in (DEFAULT, *(self.pools or {}))}
        check_nothing_shared(
            {
                name: (
                    pool.amqp_url,
                    pool.redis_url,
                    (f"{pool.prefix}.", pool.ready_prefix, pool.dead_prefix),
                    pool.redis_prefix,
                )
                for name, pool in by_pool.items()
            }
        )
        return self

    def of_pool(self, name: str) -> Self:
        """Returns the settings of a pool, which must exist."""
        return self if name == DEFAULT else self.model_copy(update=(self.pools or {})[name].settings())

    @property
    def topic_defaults(self) -> Defaults:
        """The values that apply where a topic's policy sets none."""
        return Defaults(
            max_retry=self.max_retry,
            ttl_ms=self.ttl or None,
            lease_ms=self.lease,
            backoff=Backoff(first_ms=self.backoff_first, factor=_BACKOFF_FACTOR, max_ms=self.backoff_max),
        )

    @property
    def max_request(self) -> int:
        """The most bytes of a request with one message: never above `max_buffered`. JSON may escape each non-ASCII
        character of a body, which then takes up to three times as many bytes. Base64 takes a third more."""
        return min(3 * self.max_body + _BESIDE_ONE_BODY_BYTES, self.max_buffered)

    @property
    def max_batch(self) -> int:
        """The most bytes of a request with several messages. It may hold sixteen of the largest bodies, but is never
        above `max_buffered`."""
        return min(16 * self.max_body + _BESIDE_BODIES_BYTES, self.max_buffered)

    @property
    def largest_kept_of_wires(self) -> int:
        """The largest body, in bytes, that Redis keeps of messages sent over a wire, unless the topic's policy has a
        `keep_body_max`. Default: `max_body`, because clients of wires look at waiting messages."""
        return self.max_body if self.wire_keep_body_max is None else self.wire_keep_body_max

    @property
    def answer_within_s(self) -> float:
        """The time limit of a whole call, in seconds. A call waits for earlier calls, for Redis and for RabbitMQ, one
        after the other. Even so, the limit is only 0.4 s longer than the longer of Redis' and RabbitMQ's time limits,
        and at least 1.9 s."""
        return max(1_500, self.store_timeout, self.broker_timeout) / 1_000 + 0.4

    @cached_property
    def tls(self) -> SSLContext:
        """The TLS context of connections to RabbitMQ, its management API and Redis."""
        return client_context(self.tls_ca, self.tls_cert, self.tls_key)
