"""Where Redis is, from a URL.

    redis://[user:password@]host[:6379][/db][?option=value]             one server; rediss:// with TLS, unix:// a socket
    redis+sentinel://[user:password@]host[:26379][,host…]/service[/db]  sentinels and the name they know the master by
    redis+cluster://[user:password@]host[:6379][,host…]                 any nodes of a Redis Cluster

User and password are those of the servers that hold the data; the sentinels' own are the options `sentinel_username`
and `sentinel_password`. With `rediss+…` all connections are TLS. Other options are redis-py's, `ssl_ca_certs` say.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from redis.asyncio.connection import parse_url
from yarl import URL

Kind = Literal["single", "sentinel", "cluster"]
Hosts = tuple[tuple[str, int], ...]

_SCHEMES: Mapping[str, Kind] = {
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
class Address:
    """`options`, `sentinel_options`: what redis-py is to be told of connections to servers and to sentinels. Of a
    single server it reads the URL itself."""

    kind: Kind
    hosts: Hosts = ()
    service: str = ""
    tls: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)
    sentinel_options: Mapping[str, Any] = field(default_factory=dict)


def read_address(url: str) -> Address:
    """
    Raises:
        ValueError: says what is wrong with the URL, and not what is in it, which may be secret.
    """
    scheme, _, rest = url.partition("://")
    kind = _SCHEMES.get(scheme.lower())
    if kind is None:
        raise ValueError(f"the URL has to begin with one of {', '.join(f'{known}://' for known in _SCHEMES)}")
    if kind == "single":
        _options(url)
        return Address(kind=kind)
    parts = _PARTS.fullmatch(rest)
    if parts is None:
        raise ValueError(f"the URL has to be {scheme}://[user:password@]host[:port][,host[:port]…]")
    service, _, db = (parts["path"] or "").partition("/") if kind == "sentinel" else ("", "", parts["path"] or "")
    if kind == "sentinel" and not service:
        raise ValueError("the name that the sentinels know the master by is missing: …host:port/service")
    if kind == "cluster" and db not in ("", "0"):
        raise ValueError("a Redis Cluster has only the database 0")
    if db and not (db.isascii() and db.isdigit()):
        raise ValueError("the database has to be a number")
    user = f"{parts['user']}@" if parts["user"] else ""
    plain, tls = scheme.lower().partition("+")[0], scheme.lower().startswith("rediss")
    options = _options(f"{plain}://{user}host/{db}?{parts['query'] or ''}")
    own = {name: options.pop(f"sentinel_{name}", None) for name in ("username", "password")}
    shared = {name: value for name, value in options.items() if name.startswith(("ssl_", "socket_"))}
    return Address(
        kind=kind,
        hosts=tuple(_host(one, 26_379 if kind == "sentinel" else 6_379) for one in parts["hosts"].split(",")),
        service=service,
        tls=tls,
        options=options,
        sentinel_options=shared | {name: value for name, value in own.items() if value is not None},
    )


def redis_url(text: str) -> str:
    """
    Raises:
        ValueError: as `read_address`.
    """
    read_address(text)
    return text


def redis_places(text: str) -> set[tuple[str, int, str]]:
    """Host, or path of a socket, port and database, of each address."""
    address = read_address(text)
    if address.kind == "single":
        url = URL(text)
        path = (url.path, "") if url.scheme == "unix" else ("", url.path.strip("/"))
        return {(url.host or path[0], url.port or 6_379, url.query.get("db") or path[1] or "0")}
    database = f"{address.service}/{address.options.get('db') or 0}"
    return {(host, port, database) for host, port in address.hosts}


def _host(text: str, port: int) -> tuple[str, int]:
    found = _HOST.fullmatch(text)
    if found is None or not 0 < int(found["port"] or port) <= 65_535:
        raise ValueError("the hosts have to be host[:port][,host[:port]…], IPv6 addresses in brackets")
    return found["host"].strip("[]"), int(found["port"] or port)


def _options(url: str) -> dict[str, Any]:
    try:
        options = dict(parse_url(url))
    except ValueError:
        raise ValueError("the port or an option of the URL is malformed") from None
    for where in ("host", "port", "connection_class"):
        options.pop(where, None)
    return options
