"""Reads BRIDGE_POOLS: further pairs of a RabbitMQ and a Redis, and the namespaces that each pair serves."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import combinations
from json import loads
from typing import Any, Final

from bridge.settings.amqp_urls import amqp_endpoints, checked_amqp_url, checked_management_url
from bridge.settings.redis_url import checked_redis_url, redis_endpoints

DEFAULT: Final = "default"

_NAME: Final = "1 to 40 letters, digits, _ -"
_NAMESPACE: Final = "1 to 100 letters, digits, _ . -"
_PREFIX: Final = "1 to 30 letters, digits, _ -"
_FORM: Final = '{"name": {"amqp_url": …, "redis_url": …, "namespaces": […]}}'
_FIELDS: Final = ("amqp_url", "redis_url", "management_url", "namespaces", "prefix")


@dataclass(frozen=True, kw_only=True, slots=True)
class Pool:
    """A pool's servers and namespaces. `prefix` starts the names of its exchanges, queues and keys; None: the pool has
    the prefixes of the bridge's settings, such as BRIDGE_PREFIX."""

    amqp_url: str = field(repr=False)
    redis_url: str = field(repr=False)
    management_url: str | None = field(default=None, repr=False)
    namespaces: tuple[str, ...] = ()
    prefix: str | None = None

    def settings(self) -> dict[str, Any]:
        """Returns the settings, by name, that this pool has instead of the bridge's settings."""
        servers = {"amqp_url": self.amqp_url, "redis_url": self.redis_url, "management_url": self.management_url}
        if self.prefix is None:
            return servers
        return servers | {
            "prefix": self.prefix,
            "redis_prefix": self.prefix,
            "ready_prefix": f"{self.prefix}-ready.",
            "dead_prefix": f"{self.prefix}-dead.",
        }


def parse_pools(text: str | bytes) -> dict[str, Pool]:
    """Parses the JSON object of pools by name.

    Raises:
        ValueError: a field of a pool is wrong. The text names the pool, the field and what is allowed, and shows no
            URL.
    """
    given = loads(text, object_pairs_hook=_without_repeats)
    if not isinstance(given, dict):
        raise ValueError(f"must be {_FORM}")  # noqa: TRY004 - pydantic handles only ValueError
    pools = {_checked(name, "a pool's name", r"[A-Za-z0-9_-]{1,40}", _NAME): fields for name, fields in given.items()}
    if DEFAULT in pools:
        raise ValueError(f"{DEFAULT!r} is the pool of BRIDGE_AMQP_URL and BRIDGE_REDIS_URL; choose another name")
    parsed = {name: _pool(name, fields) for name, fields in pools.items()}
    pool_of: dict[str, str] = {}
    for name, pool in parsed.items():
        for namespace in pool.namespaces:
            if (other := pool_of.setdefault(namespace, name)) != name:
                raise ValueError(f"namespaces: {namespace!r} is in the pools {other} and {name}; leave it in one")
    return parsed


def check_nothing_shared(named: Mapping[str, tuple[str, str, tuple[str, ...], str]]) -> None:
    """Checks that no two pools use the same names on the same server.

    `named`: for each pool, the URLs of RabbitMQ and of Redis, the prefixes of its names on RabbitMQ, and the prefix of
    its keys in Redis.

    Raises:
        ValueError: two pools would take each other's messages, or each other's records.
    """
    for (name, (amqp, redis, starts, keys)), (name_2, (amqp_2, redis_2, starts_2, keys_2)) in combinations(
        named.items(), 2
    ):
        if amqp_endpoints(amqp) & amqp_endpoints(amqp_2) and any(
            start.startswith(start_2) or start_2.startswith(start) for start in starts for start_2 in starts_2
        ):
            raise ValueError(
                f"BRIDGE_POOLS: {name} and {name_2} have the same virtual host and their names could be the same;"
                " give one another virtual host, or its own prefix"
            )
        if redis_endpoints(redis) & redis_endpoints(redis_2) and keys == keys_2:
            raise ValueError(
                f"BRIDGE_POOLS: {name} and {name_2} have the same Redis and the same prefix of keys;"
                " give one another database, or its own prefix"
            )


def _pool(name: str, fields: object) -> Pool:
    if not isinstance(fields, dict):
        raise ValueError(f"{name}: must be an object, as in {_FORM}")  # noqa: TRY004
    if unknown := fields.keys() - set(_FIELDS):
        raise ValueError(f"{name}: unknown field {min(unknown)[:40]!r}; the fields are {', '.join(_FIELDS)}")
    namespaces, prefix = fields.get("namespaces", []), fields.get("prefix")
    if not isinstance(namespaces, list):
        raise ValueError(f"{name}.namespaces: must be a list")  # noqa: TRY004
    return Pool(
        amqp_url=_url(name, fields, "amqp_url", checked_amqp_url),
        redis_url=_url(name, fields, "redis_url", checked_redis_url),
        management_url=None
        if fields.get("management_url") is None
        else _url(name, fields, "management_url", checked_management_url),
        namespaces=tuple(
            dict.fromkeys(
                _checked(namespace, f"{name}.namespaces", r"[A-Za-z0-9_.-]{1,100}", _NAMESPACE)
                for namespace in namespaces
            )
        ),
        prefix=None if prefix is None else _checked(prefix, f"{name}.prefix", r"[A-Za-z0-9_-]{1,30}", _PREFIX),
    )


def _url(name: str, fields: Mapping[str, object], which: str, check: Callable[[str], str]) -> str:
    given = fields.get(which)
    if not isinstance(given, str):
        raise ValueError(f"{name}.{which}: must be a URL")  # noqa: TRY004
    try:
        return check(given)
    except ValueError as error:
        raise ValueError(f"{name}.{which}: {error}") from None


def _checked(value: object, what: str, pattern: str, rule: str) -> str:
    if not isinstance(value, str) or not re.fullmatch(pattern, value):
        # A URL in the wrong field may have a password in it.
        shown = "" if "://" in str(value) else f" {str(value)[:120]!r}"
        raise ValueError(f"{what}{shown} must be {rule}")
    return value


def _without_repeats(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ValueError("an object has the same name twice; remove one of them")
    return members
