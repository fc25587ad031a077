"""All settings, from the environment (`BRIDGE_…`) or from files in `BRIDGE_SECRETS_DIR`."""

from __future__ import annotations

import os
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from bridge.durations import parse_duration_ms

DurationMs = Annotated[int, BeforeValidator(lambda value: parse_duration_ms(_number(value)))]


def _number(value: object) -> object:
    return int(value) if isinstance(value, str) and value.isascii() and value.isdigit() else value


class Settings(BaseSettings):
    """Durations take `"15m"` forms as well as milliseconds."""

    model_config = SettingsConfigDict(
        env_prefix="BRIDGE_", secrets_dir=os.environ.get("BRIDGE_SECRETS_DIR"), extra="ignore"
    )

    amqp_url: str = "amqp://guest:guest@127.0.0.1:5672/"
    redis_url: str = "redis://127.0.0.1:6379/0"
    management_url: str | None = None  # with credentials; used only to verify effective arguments and policies
    http_host: str = "127.0.0.1"
    http_port: Annotated[int, Field(ge=0, le=65_535)] = 8080
    reuse_port: bool = False

    prefix: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,40}$")] = "delay"
    ready_prefix: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]{1,40}$")] = "ready."
    dead_prefix: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]{1,40}$")] = "dead."
    redis_prefix: Annotated[str, Field(pattern=r"^[^{}/]{1,40}$")] = "delay"
    delivery_limit: Annotated[int, Field(ge=1)] = 20  # of ready queues; fixed once a topic's queue exists

    keep_body_max: Annotated[int, Field(ge=0)] = 64 * 1024  # bytes; larger bodies are not kept in Redis
    max_body: Annotated[int, Field(ge=1, le=16 * 1024 * 1024)] = 1024 * 1024  # bytes
    max_retry: Annotated[int, Field(ge=0, le=10_000)] = 3
    lease: DurationMs = 30_000
    retention: DurationMs = 3_600_000  # of ended messages
    tombstone_retention: DurationMs = 7 * 86_400_000  # of deleted ones, and of ready ones nobody reported on

    store_timeout: DurationMs = 1_500
    broker_timeout: DurationMs = 1_500
    checkpoint_prefetch: Annotated[int, Field(ge=1, le=65_535)] = 4_000
    checkpoint_batch: Annotated[int, Field(ge=1)] = 250
    audit_every: DurationMs = 60_000  # 0: never
    audit_grace: DurationMs = 60_000  # so long after its moment a copy counts as lost
    grace: DurationMs = 10_000  # for what is under way when the process is told to stop

    camellia: bool = True
    log_format: Literal["json", "console"] = "json"
    log_level: Literal["debug", "info", "warning", "error"] = "info"
