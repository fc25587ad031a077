"""All settings, from the environment (`BRIDGE_…`) or from files in `BRIDGE_SECRETS_DIR`."""

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
from bridge.settings.amqp_urls import amqp_url, management_url
from bridge.settings.pools import DEFAULT, Pool, check_apart, parse_pools
from bridge.settings.redis_url import redis_url
from bridge.settings.roles import EVERY_ROLE, Roles, parse_roles
from bridge.settings.task_services import TaskService, parse_task_services
from bridge.settings.tls import check_server_files, client_context

DurationMs = Annotated[int, BeforeValidator(lambda value: parse_duration_ms(_number(value)))]

# Passwords are in them, so they are not shown: neither in an error nor by `repr`.
AmqpUrl = Annotated[str, AfterValidator(amqp_url), Field(repr=False)]
RedisUrl = Annotated[str, AfterValidator(redis_url), Field(repr=False)]
ManagementUrl = Annotated[Annotated[str, AfterValidator(management_url)] | None, Field(repr=False)]
_SECRET = ("amqp_url", "redis_url", "management_url", "lmstfy_accounts", "task_services", "pools")


def _accounts(value: object) -> object:
    return loads(value) if isinstance(value, str | bytes) else value


# Passwords by user, as JSON.
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
Pools = Annotated[
    dict[str, Pool] | None,
    NoDecode,
    BeforeValidator(lambda value: parse_pools(value) if isinstance(value, str | bytes) else value),
    Field(repr=False),
]
RolesOf = Annotated[
    Roles, NoDecode, BeforeValidator(lambda value: parse_roles(value) if isinstance(value, str) else value)
]
Seconds = Annotated[int, Field(ge=0, lt=2**32)]


def complaints(error: ValidationError) -> list[str]:
    """What is wrong with the environment, a line for each setting; shows no value that has a password in it."""
    lines = []
    for problem in error.errors():
        says = problem["msg"].removeprefix("Value error, ")
        if not problem["loc"]:
            lines.append(says)
            continue
        name = "_".join(str(part) for part in problem["loc"])
        given = "" if name in _SECRET else f" (given: {problem['input']!r})"
        lines.append(f"BRIDGE_{name.upper()}: {says}{given}")
    return lines


def _number(value: object) -> object:
    return int(value) if isinstance(value, str) and value.isascii() and value.isdigit() else value


class Settings(BaseSettings):
    """Durations take `"15m"` forms as well as milliseconds."""

    model_config = SettingsConfigDict(
        env_prefix="BRIDGE_",
        secrets_dir=os.environ.get("BRIDGE_SECRETS_DIR"),
        extra="ignore",
        hide_input_in_errors=True,
    )

    amqp_url: AmqpUrl = "amqp://guest:guest@127.0.0.1:5672/"
    redis_url: RedisUrl = "redis://127.0.0.1:6379/0"
    management_url: ManagementUrl = None  # with credentials; used only to look at arguments, bindings and policies
    pools: Pools = None  # by their names, beside the default one, which is the above
    tls_ca: Path | None = None  # PEM; of all servers that are reached by TLS. None: the system's
    tls_cert: Path | None = None  # PEM; for servers that ask who we are
    tls_key: Path | None = None
    roles: RolesOf = EVERY_ROLE
    workers: Annotated[int, Field(ge=1, le=64)] = 1
    http_host: str = "127.0.0.1"
    http_port: Annotated[int, Field(ge=0, le=65_535)] = 8080
    reuse_port: bool = False
    http_cert: Path | None = None  # PEM, with the chain: the port speaks https
    http_key: Path | None = None
    access: Literal["tokens", "open"] | None = None  # None: open on loopback, refused at the start elsewhere
    tokens_file: Path | None = None  # the tokens, in place of those in Redis
    max_connections: Annotated[int, Field(ge=1)] = 4_096
    max_head: Annotated[int, Field(ge=1_024, le=1024 * 1024)] = 32 * 1024  # bytes
    client_timeout: DurationMs = 20_000  # for a head, each 64 KiB of a body, each 64 KiB of an answer
    keep_alive: DurationMs = 75_000  # longer than the pools and balancers before it keep a connection: 60 s

    prefix: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,40}$")] = "delay"
    ready_prefix: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]{1,40}$")] = "ready."
    dead_prefix: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]{1,40}$")] = "dead."
    redis_prefix: Annotated[str, Field(pattern=r"^[^{}/]{1,40}$")] = "delay"
    lanes: Annotated[int, Field(ge=1, le=64)] = 1  # wheels side by side, each with a checkpoint queue
    index_buckets: Annotated[int, Field(ge=1, le=256)] = 1  # of each topic; fixed once Redis has messages
    delivery_limit: Annotated[int, Field(ge=1)] = 20  # of ready queues; fixed once a topic's queue exists

    keep_body_max: Annotated[int, Field(ge=0)] = 64 * 1024  # bytes; larger bodies are not kept in Redis
    max_body: Annotated[int, Field(ge=1, le=16 * 1024 * 1024)] = 1024 * 1024  # bytes
    max_retry: Annotated[int, Field(ge=0, le=10_000)] = 3
    lease: DurationMs = 30_000
    retention: DurationMs = 3_600_000  # of ended messages
    tombstone_retention: DurationMs = 7 * 86_400_000  # of deleted ones, and of ready ones nobody reported on

    bundles: bool = True  # copies that come due together share a message; what came in one is read either way

    store_timeout: DurationMs = 1_500
    broker_timeout: DurationMs = 1_500
    checkpoint_prefetch: Annotated[int, Field(ge=1, le=65_535)] = 4_000
    checkpoint_batch: Annotated[int, Field(ge=1)] = 250
    audit_every: DurationMs = 60_000  # 0: never
    audit_grace: DurationMs = 60_000  # so long after its moment a copy counts as lost
    verify_every: DurationMs = 60_000  # 0: at start only
    drain: DurationMs = 500  # how long calls are taken after it was told to stop, and ends their connections
    grace: DurationMs = 10_000  # for what is under way when the process is told to stop

    push_allow: PushAllow = None
    camellia: bool = True
    ouqiang: bool = True
    changsongl: bool = True
    youzan: bool = True
    tasks: bool = True
    task_retention: DurationMs = 3 * 86_400_000  # of tasks that were taken
    task_services: TaskServices = None
    lmstfy: bool = True
    lmstfy_port: Annotated[int, Field(ge=1, le=65_535)] | None = None  # beside the bridge's own; its original's is 7777
    lmstfy_admin_port: Annotated[int, Field(ge=1, le=65_535)] | None = None  # its original's is 7778
    lmstfy_admin_host: str = "127.0.0.1"
    lmstfy_accounts: Accounts = None  # None: whoever reaches the admin port is let in
    lmstfy_skip_verification: bool = False  # of tokens, as its original's flag -sv
    lmstfy_delay_seconds: Seconds = 0
    lmstfy_ttl_seconds: Seconds = 86_400
    lmstfy_tries: Annotated[int, Field(ge=1, lt=2**16)] = 1
    lmstfy_ttr_seconds: Seconds = 120
    lmstfy_timeout_seconds: Seconds = 0
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
        each = {name: self.of_pool(name) for name in (DEFAULT, *(self.pools or {}))}
        check_apart(
            {
                name: (
                    one.amqp_url,
                    one.redis_url,
                    (f"{one.prefix}.", one.ready_prefix, one.dead_prefix),
                    one.redis_prefix,
                )
                for name, one in each.items()
            }
        )
        return self

    def of_pool(self, name: str) -> Self:
        """Those of a pool that there is."""
        return self if name == DEFAULT else self.model_copy(update=(self.pools or {})[name].settings())

    @property
    def answer_within_s(self) -> float:
        """For all that a call waits for by turns (those before it, Redis, RabbitMQ): little more than for one of it."""
        return max(1_500, self.store_timeout, self.broker_timeout) / 1_000 + 0.4

    @cached_property
    def tls(self) -> SSLContext:
        """Of connections to other servers."""
        return client_context(self.tls_ca, self.tls_cert, self.tls_key)
