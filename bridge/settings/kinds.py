"""Defines the kinds of settings: what text each takes, its unit, and whether it holds a password."""

from __future__ import annotations

from dataclasses import dataclass
from json import loads
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field

from bridge.model.addresses import Allowed, parse_allowed
from bridge.model.durations import parse_duration_ms
from bridge.settings.amqp_urls import checked_amqp_url, checked_management_url
from bridge.settings.pools import Pool, parse_pools
from bridge.settings.redis_url import checked_redis_url
from bridge.settings.roles import Roles, parse_roles
from bridge.settings.task_services import TaskService, parse_task_services


@dataclass(frozen=True, slots=True)
class Unit:
    """The unit of a setting's value, such as `bytes`, or the form of the value, such as `URL`. A kind with a fixed set
    of values, such as a bool, needs no unit."""

    name: str


def _number(value: object) -> object:
    return int(value) if isinstance(value, str) and value.isascii() and value.isdigit() else value


def _accounts(value: object) -> object:
    return loads(value) if isinstance(value, str | bytes) else value


# A number of milliseconds or a string such as "15m".
DurationMs = Annotated[int, BeforeValidator(lambda value: parse_duration_ms(_number(value))), Unit("duration")]
Seconds = Annotated[int, Field(ge=0, lt=2**32), Unit("seconds")]
Bytes = Annotated[int, Field(ge=0), Unit("bytes")]
PortOrNone = Annotated[Annotated[int, Field(ge=1, le=65_535)] | None, Unit("port")]
Address = Annotated[str, Unit("address")]
PemFile = Annotated[Path | None, Unit("PEM file")]
RolesOption = Annotated[
    Roles, BeforeValidator(lambda value: parse_roles(value) if isinstance(value, str) else value), Unit("roles")
]
PushAllow = Annotated[
    tuple[Allowed, ...] | None,
    BeforeValidator(lambda value: parse_allowed(value) if isinstance(value, str) else value),
    Unit("hosts, addresses, networks"),
]
ExchangeNames = Annotated[
    tuple[Annotated[str, Field(min_length=1, max_length=255)], ...] | None,
    BeforeValidator(lambda value: tuple(map(str.strip, value.split(","))) if isinstance(value, str) else value),
    Unit("names"),
]

# Settings with `repr=False` hold passwords: no error, log or output shows their values.
AmqpUrl = Annotated[str, AfterValidator(checked_amqp_url), Field(repr=False), Unit("URL")]
RedisUrl = Annotated[str, AfterValidator(checked_redis_url), Field(repr=False), Unit("URL")]
ManagementUrl = Annotated[Annotated[str, AfterValidator(checked_management_url)] | None, Field(repr=False), Unit("URL")]
# A JSON object of passwords by user.
Accounts = Annotated[dict[str, str] | None, BeforeValidator(_accounts), Field(repr=False), Unit("JSON")]
TaskServices = Annotated[
    dict[str, TaskService] | None,
    BeforeValidator(lambda value: parse_task_services(value) if isinstance(value, str | bytes) else value),
    Field(repr=False),
    Unit("JSON"),
]
PoolsByName = Annotated[
    dict[str, Pool] | None,
    BeforeValidator(lambda value: parse_pools(value) if isinstance(value, str | bytes) else value),
    Field(repr=False),
    Unit("JSON"),
]
