"""Reads all settings from the environment (`BRIDGE_…`) and from files in `BRIDGE_SECRETS_DIR`."""

from __future__ import annotations

import os
from functools import cached_property
from json import loads
from pathlib import Path
from ssl import SSLContext
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, ValidationError, model_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from bridge.model.addresses import Allowed, parse_allowed
from bridge.model.durations import parse_duration_ms
from bridge.model.values import LARGEST_BODY
from bridge.settings.amqp_urls import checked_amqp_url, checked_management_url
from bridge.settings.pools import DEFAULT, Pool, check_apart, parse_pools
from bridge.settings.redis_url import checked_redis_url
from bridge.settings.roles import EVERY_ROLE, Roles, parse_roles
from bridge.settings.task_services import TaskService, parse_task_services
from bridge.settings.tls import check_server_files, client_context

DurationMs = Annotated[int, BeforeValidator(lambda value: parse_duration_ms(_number(value)))]

# These settings hold passwords, so neither an error nor `repr` shows them.
AmqpUrl = Annotated[str, AfterValidator(checked_amqp_url), Field(repr=False)]
RedisUrl = Annotated[str, AfterValidator(checked_redis_url), Field(repr=False)]
ManagementUrl = Annotated[Annotated[str, AfterValidator(checked_management_url)] | None, Field(repr=False)]
_SECRET = ("amqp_url", "redis_url", "management_url", "lmstfy_accounts", "task_services", "pools")


def _accounts(value: object) -> object:
    return loads(value) if isinstance(value, str | bytes) else value


# A JSON object of passwords by user.
Accounts = Annotated[dict[str, str] | None, NoDecode, BeforeValidator(_accounts), Field(repr=False)]
PushAllow = Annotated[
    tuple[Allowed, ...] | None,
    NoDecode,
    BeforeValidator(lambda value: parse_allowed(value) if isinstance(value, str) else value),
]
TaskServices = Annotated[
    dict[str, TaskService] | None,
    NoDecode,
    BeforeValidator(lambda value: parse_task_services(value) if isinstance(value, str | bytes) else value),
    Field(repr=False),
]
PoolsByName = Annotated[
    dict[str, Pool] | None,
    NoDecode,
    BeforeValidator(lambda value: parse_pools(value) if isinstance(value, str | bytes) else value),
    Field(repr=False),
]
RolesOption = Annotated[
    Roles, NoDecode, BeforeValidator(lambda value: parse_roles(value) if isinstance(value, str) else value)
]
_BESIDE_ONE_BODY_BYTES = 256 * 1024  # headers and ids, or the receipts of an ack
_BESIDE_BODIES_BYTES = 1024 * 1024
Seconds = Annotated[int, Field(ge=0, lt=2**32)]


def complaints(error: ValidationError) -> list[str]:
    """Says what is wrong with the settings, one line for each. Shows no value that may hold a password."""
    lines = []
    for problem in error.errors():
        message = problem["msg"].removeprefix("Value error, ")
        if not problem["loc"]:
            lines.append(message)
            continue
        name = "_".join(str(part) for part in problem["loc"])
        given = "" if name in _SECRET else f" (given: {problem['input']!r})"
        lines.append(f"BRIDGE_{name.upper()}: {message}{given}")
    return lines


def _number(value: object) -> object:
    return int(value) if isinstance(value, str) and value.isascii() and value.isdigit() else value


class Settings(BaseSettings):
    """The settings of a bridge. A duration is a number of milliseconds or a string such as `"15m"`."""

    model_config = SettingsConfigDict(
        env_prefix="BRIDGE_",
        secrets_dir=os.environ.get("BRIDGE_SECRETS_DIR"),
        extra="ignore",
        hide_input_in_errors=True,
    )

    amqp_url: AmqpUrl = "amqp://guest:guest@127.0.0.1:5672"
    redis_url: RedisUrl = "redis://127.0.0.1:6379/0"
    management_url: ManagementUrl = None  # with user and password; only to check arguments, bindings and policies
    pools: PoolsByName = None  # further pools; the servers above are the default pool
    tls_ca: Path | None = None  # PEM: the authorities of all servers reached by TLS. None: the system's authorities
    tls_cert: Path | None = None  # PEM: the client certificate for servers that ask for one
    tls_key: Path | None = None
    roles: RolesOption = EVERY_ROLE
    workers: Annotated[int, Field(ge=1, le=64)] = 1
    http_host: str = "127.0.0.1"
    http_port: Annotated[int, Field(ge=0, le=65_535)] = 8080
    reuse_port: bool = False
    http_cert: Path | None = None  # PEM with the chain. If it is set, the port speaks https
    http_key: Path | None = None
    access: Literal["tokens", "open"] | None = None  # None: open on loopback; elsewhere the bridge refuses to start
    tokens_file: Path | None = None  # a file of tokens; those in Redis do not count then
    max_connections: Annotated[int, Field(ge=1)] = 4_096
    max_buffered: Annotated[int, Field(ge=1024 * 1024)] = 64 * 1024 * 1024  # bytes of bodies, of all connections
    max_head: Annotated[int, Field(ge=1_024, le=1024 * 1024)] = 32 * 1024  # bytes
    client_timeout: DurationMs = 20_000  # for a request's head, for each 64 KiB of a body, for each 64 KiB of an answer
    keep_alive: DurationMs = 75_000  # longer than clients and load balancers keep an idle connection (60 s)

    prefix: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,40}$")] = "delay"
    ready_prefix: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]{1,40}$")] = "ready."
    dead_prefix: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]{1,40}$")] = "dead."
    redis_prefix: Annotated[str, Field(pattern=r"^[^{}/]{1,40}$")] = "delay"
    lanes: Annotated[int, Field(ge=1, le=64)] = 1  # number of wheels; each has a checkpoint queue
    index_buckets: Annotated[int, Field(ge=1, le=256)] = 1  # of each topic's index; fixed once Redis has messages
    delivery_limit: Annotated[int, Field(ge=1)] = 20  # of ready queues; fixed once a topic's queue exists

    keep_body_max: Annotated[int, Field(ge=0)] = 64 * 1024  # bytes; Redis does not keep larger bodies
    wire_keep_body_max: Annotated[int, Field(ge=0)] | None = None  # the same for sends on wires. None: as max_body
    max_body: Annotated[int, Field(ge=1, le=LARGEST_BODY)] = 1024 * 1024  # bytes
    max_retry: Annotated[int, Field(ge=0, le=10_000)] = 3
    lease: DurationMs = 30_000
    # A lease that is settled sooner needs no copy in the wheel; 0: it has one at once.
    lease_copy_after: Annotated[DurationMs, Field(le=60_000)] = 2_000
    retention: DurationMs = 3_600_000  # of ended messages
    tombstone_retention: DurationMs = 7 * 86_400_000  # of deleted messages, and of ready ones without any report

    bundles: bool = True  # copies whose moments lie near each other share a message; bundles are read in any case

    store_timeout: DurationMs = 1_500
    broker_timeout: DurationMs = 1_500
    checkpoint_prefetch: Annotated[int, Field(ge=1, le=65_535)] = 4_000
    checkpoint_batch: Annotated[int, Field(ge=1)] = 250
    audit_every: DurationMs = 60_000  # 0: never
    audit_grace: DurationMs = 60_000  # a copy counts as lost this long after it should have arrived
    verify_every: DurationMs = 60_000  # 0: at start only
    drain: DurationMs = 500  # after SIGTERM the process takes calls this long; each answer ends its connection
    grace: DurationMs = 10_000  # after SIGTERM the process finishes work in flight this long

    push_allow: PushAllow = None
    camellia: bool = True
    ouqiang: bool = True
    changsongl: bool = True
    youzan: bool = True
    tasks: bool = True
    task_retention: DurationMs = 3 * 86_400_000  # of tasks that a client has taken
    task_services: TaskServices = None
    lmstfy: bool = True
    lmstfy_port: Annotated[int, Field(ge=1, le=65_535)] | None = None  # a second port; the original lmstfy has 7777
    lmstfy_admin_port: Annotated[int, Field(ge=1, le=65_535)] | None = None  # the original lmstfy has 7778
    lmstfy_admin_host: str = "127.0.0.1"
    lmstfy_accounts: Accounts = None  # None: the admin port asks for no password
    lmstfy_skip_verification: bool = False  # do not check tokens; the original's flag -sv
    lmstfy_delay_seconds: Seconds = 0
    lmstfy_ttl_seconds: Seconds = 86_400
    lmstfy_tries: Annotated[int, Field(ge=1, lt=2**16)] = 1
    lmstfy_ttr_seconds: Seconds = 120
    lmstfy_timeout_seconds: Seconds = 0
    access_log: bool = False
    metrics_topics: Annotated[int, Field(ge=0, le=10_000)] = 200  # with a label of their own in /metrics
    log_format: Literal["json", "console"] = "json"
    log_level: Literal["debug", "info", "warning", "error"] = "info"

    @model_validator(mode="after")
    def _files_can_be_used(self) -> Self:
        if self.tls_ca or self.tls_cert or self.tls_key:
            _ = self.tls
        check_server_files(self.http_cert, self.http_key)
        return self

    @model_validator(mode="after")
    def _pools_are_apart(self) -> Self:
        by_pool = {name: self.of_pool(name) for name in (DEFAULT, *(self.pools or {}))}
        check_apart(
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
    def max_request(self) -> int:
        """The most bytes of a request with one message. JSON may escape each character of a body that is not ASCII, and
        so take three times as much; base64 takes a third more."""
        return min(3 * self.max_body + _BESIDE_ONE_BODY_BYTES, self.max_buffered)

    @property
    def max_batch(self) -> int:
        """The most bytes of a request with several messages. It may hold sixteen of the largest bodies."""
        return min(16 * self.max_body + _BESIDE_BODIES_BYTES, self.max_buffered)

    @property
    def largest_kept_of_wires(self) -> int:
        """The largest body of a client of a wire that Redis keeps, in bytes. Other queues keep all bodies in Redis, and
        their clients look at waiting messages."""
        return self.max_body if self.wire_keep_body_max is None else self.wire_keep_body_max

    @property
    def answer_within_s(self) -> float:
        """The time limit of a whole call, which waits for earlier calls, for Redis and for RabbitMQ in turn. It is
        little longer than the limit of one of these."""
        return max(1_500, self.store_timeout, self.broker_timeout) / 1_000 + 0.4

    @cached_property
    def tls(self) -> SSLContext:
        """The TLS context of connections to other servers."""
        return client_context(self.tls_ca, self.tls_cert, self.tls_key)
