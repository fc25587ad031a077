"""Pools, as the settings have them: each is a RabbitMQ and a Redis beside the bridge's own, and what lives there."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import combinations
from json import loads
from typing import Any, Final

from bridge.settings.amqp_urls import amqp_places, amqp_url, management_url
from bridge.settings.redis_url import redis_places, redis_url

DEFAULT: Final = "default"

_NAME: Final = "1 to 40 letters, digits, _ -"
_NAMESPACE: Final = "1 to 100 letters, digits, _ . -"
_PREFIX: Final = "1 to 30 letters, digits, _ -"
_FORM: Final = '{"name": {"amqp_url": …, "redis_url": …, "namespaces": […]}}'
_FIELDS: Final = ("amqp_url", "redis_url", "management_url", "namespaces", "prefix")


@dataclass(frozen=True, kw_only=True, slots=True)
class Pool:
    """`prefix`: starts the names of its exchanges, queues and keys; None: they are named as the bridge's own."""

    amqp_url: str = field(repr=False)
    redis_url: str = field(repr=False)
    management_url: str | None = field(default=None, repr=False)
    namespaces: tuple[str, ...] = ()
    prefix: str | None = None

    def settings(self) -> dict[str, Any]:
        """What is other than in the bridge's own settings."""
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
    """
    Raises:
        ValueError: says which pool and field, and what is allowed; shows no URL.
    """
    given = loads(text, object_pairs_hook=_once)
    if not isinstance(given, dict):
        raise ValueError(f"must be {_FORM}")  # noqa: TRY004 - pydantic takes no other
    pools = {_checked(name, "a pool's name", r"[A-Za-z0-9_-]{1,40}", _NAME): fields for name, fields in given.items()}
    if DEFAULT in pools:
        raise ValueError(f"{DEFAULT!r} is the bridge's own pool, of BRIDGE_AMQP_URL and BRIDGE_REDIS_URL")
    parsed = {name: _pool(name, fields) for name, fields in pools.items()}
    home: dict[str, str] = {}
    for name, pool in parsed.items():
        for namespace in pool.namespaces:
            if (other := home.setdefault(namespace, name)) != name:
                raise ValueError(f"namespaces: {namespace!r} is in the pools {other} and {name}; it can be in one")
    return parsed


def check_apart(named: Mapping[str, tuple[str, str, tuple[str, ...], str]]) -> None:
    """`named`: by pool the URLs of RabbitMQ and Redis, what starts names on the broker, and what starts keys.

    Raises:
        ValueError: two pools would take each other's messages, or each other's records.
    """
    for (one, (amqp, redis, starts, keys)), (other, (amqp_2, redis_2, starts_2, keys_2)) in combinations(
        named.items(), 2
    ):
        if amqp_places(amqp) & amqp_places(amqp_2) and any(
            a.startswith(b) or b.startswith(a) for a in starts for b in starts_2
        ):
            raise ValueError(
                f"BRIDGE_POOLS: {one} and {other} have the same virtual host: one needs another, or a prefix of its own"
            )
        if redis_places(redis) & redis_places(redis_2) and keys == keys_2:
            raise ValueError(
                f"BRIDGE_POOLS: {one} and {other} have the same Redis: one needs another database, or a prefix"
            )


def _pool(name: str, fields: object) -> Pool:
    if not isinstance(fields, dict):
        raise ValueError(f"{name}: must be an object, as in {_FORM}")  # noqa: TRY004
    if unknown := fields.keys() - set(_FIELDS):
        raise ValueError(f"{name}: unknown {min(unknown)[:40]!r}; known are {', '.join(_FIELDS)}")
    namespaces, prefix = fields.get("namespaces", []), fields.get("prefix")
    if not isinstance(namespaces, list):
        raise ValueError(f"{name}.namespaces: must be a list")  # noqa: TRY004
    return Pool(
        amqp_url=_url(name, fields, "amqp_url", amqp_url),
        redis_url=_url(name, fields, "redis_url", redis_url),
        management_url=None
        if fields.get("management_url") is None
        else _url(name, fields, "management_url", management_url),
        namespaces=tuple(
            dict.fromkeys(
                _checked(one, f"{name}.namespaces", r"[A-Za-z0-9_.-]{1,100}", _NAMESPACE) for one in namespaces
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
        # A URL that got to the wrong place may have a password in it.
        shown = "" if "://" in str(value) else f" {str(value)[:120]!r}"
        raise ValueError(f"{what}{shown} must be {rule}")
    return value


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name is there twice in one object")
    return found
