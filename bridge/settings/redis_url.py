"""Parses the URL of Redis.

    redis://[user:password@]host[:6379][/db][?option=value]             one server; rediss:// with TLS, unix:// a socket
    redis+sentinel://[user:password@]host[:26379][,host…]/service[/db]  sentinels and the name they know the master by
    redis+cluster://[user:password@]host[:6379][,host…]                 any nodes of a Redis Cluster

User and password are for the servers that hold the data. The options `sentinel_username` and `sentinel_password` are
for the sentinels. With `rediss+…` all connections use TLS. Other options are redis-py's, such as `ssl_ca_certs`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from redis.asyncio.connection import parse_url
from yarl import URL

Deployment = Literal["single", "sentinel", "cluster"]
Hosts = tuple[tuple[str, int], ...]

_SCHEMES: Mapping[str, Deployment] = {
    "redis": "single",
    "rediss": "single",
    "unix": "single",
    "redis+sentinel": "sentinel",
    "rediss+sentinel": "sentinel",
    "redis+cluster": "cluster",
    "rediss+cluster": "cluster",
}
_PARTS = re.compile(
    r"(?:(?P<user>[^@/?#]*)@)?(?P<hosts>[^@/?#]*)(?:/(?P<path>[^?#]*))?(?:\?(?P<query>[^#]*))?", re.DOTALL
)
_HOST = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[^\s:\[\],]+)(?::(?P<port>[0-9]{1,5}))?")


@dataclass(frozen=True, kw_only=True, slots=True)
class RedisAddress:
    """The address of Redis. `service`: the name by which the sentinels know the master. `options`: redis-py's options
    for connections to the servers that hold the data. `sentinel_options`: for connections to the sentinels. For a
    single server only `deployment` is set, because redis-py reads the URL itself."""

    deployment: Deployment
    hosts: Hosts = ()
    service: str = ""
    tls: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)
    sentinel_options: Mapping[str, Any] = field(default_factory=dict)


def parse_redis_url(url: str) -> RedisAddress:
    """Parses the URL of Redis.

    Raises:
        ValueError: the URL is malformed. The text says why without showing the URL, which may hold a password.
    """
    scheme, _, rest = url.partition("://")
    deployment = _SCHEMES.get(scheme.lower())
    if deployment is None:
        raise ValueError(f"the URL must begin with one of {', '.join(f'{known}://' for known in _SCHEMES)}")
    if deployment == "single":
        _options(url)
        return RedisAddress(deployment=deployment)
    parts = _PARTS.fullmatch(rest)
    if parts is None:
        raise ValueError(f"the URL must have the form {scheme}://[user:password@]host[:port][,host[:port]…]")
    sentinel = deployment == "sentinel"
    service, _, db = (parts["path"] or "").partition("/") if sentinel else ("", "", parts["path"] or "")
    if sentinel and not service:
        raise ValueError("the URL lacks the name that the sentinels know the master by: add it as …host:port/name")
    if deployment == "cluster" and db not in ("", "0"):
        raise ValueError("a Redis Cluster has only the database 0: remove the database from the URL")
    if db and not (db.isascii() and db.isdigit()):
        raise ValueError("the database in the URL must be a number")
    user = f"{parts['user']}@" if parts["user"] else ""
    plain, tls = scheme.lower().partition("+")[0], scheme.lower().startswith("rediss")
    options = _options(f"{plain}://{user}host/{db}?{parts['query'] or ''}")
    own = {name: options.pop(f"sentinel_{name}", None) for name in ("username", "password")}
    shared = {name: value for name, value in options.items() if name.startswith(("ssl_", "socket_"))}
    default_port = 26_379 if sentinel else 6_379
    return RedisAddress(
        deployment=deployment,
        hosts=tuple(_host(host, default_port) for host in parts["hosts"].split(",")),
        service=service,
        tls=tls,
        options=options,
        sentinel_options=shared | {name: value for name, value in own.items() if value is not None},
    )


def checked_redis_url(text: str) -> str:
    """Checks the URL of Redis, and returns it unchanged.

    Raises:
        ValueError: the URL is malformed. The text says why without showing the URL.
    """
    parse_redis_url(text)
    return text


def redis_endpoints(text: str) -> set[tuple[str, int, str]]:
    """Returns host (or path of the socket), port and database of each host in the URL. With Sentinel, the database is
    the master's name, a slash and the number."""
    address = parse_redis_url(text)
    if address.deployment == "single":
        url = URL(text)
        path = (url.path, "") if url.scheme == "unix" else ("", url.path.strip("/"))
        return {(url.host or path[0], url.port or 6_379, url.query.get("db") or path[1] or "0")}
    database = f"{address.service}/{address.options.get('db') or 0}"
    return {(host, port, database) for host, port in address.hosts}


def _host(text: str, default_port: int) -> tuple[str, int]:
    parts = _HOST.fullmatch(text)
    if parts is None or not 0 < int(parts["port"] or default_port) <= 65_535:
        raise ValueError("the hosts must have the form host[:port][,host[:port]…], with IPv6 addresses in brackets")
    return parts["host"].strip("[]"), int(parts["port"] or default_port)


def _options(url: str) -> dict[str, Any]:
    try:
        options = dict(parse_url(url))
    except ValueError:
        raise ValueError("the port or an option of the URL is malformed") from None
    for name in ("host", "port", "connection_class"):
        options.pop(name, None)
    return options
