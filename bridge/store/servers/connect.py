"""The servers of a URL."""

from __future__ import annotations

from ssl import SSLContext
from typing import Any

from redis.asyncio.connection import Connection, ConnectionPool, SSLConnection
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from bridge.settings.redis_url import parse_redis_url
from bridge.store.clock import StoreClock
from bridge.store.servers.cluster import Cluster
from bridge.store.servers.sentinel import SentinelMaster
from bridge.store.servers.server import Server
from bridge.store.servers.servers import Servers
from bridge.store.servers.tls import trusting


def connect(url: str, clock: StoreClock, *, timeout_s: float, tls: SSLContext | None = None) -> Servers:
    """Nothing is connected before it is used. `tls`: for URLs with TLS that have no options of their own for it.

    Raises:
        ValueError: the URL is none that `parse_redis_url` can read.
    """
    address = parse_redis_url(url)
    options: dict[str, Any] = {
        "socket_timeout": timeout_s,
        "socket_connect_timeout": timeout_s,
        "retry": Retry(NoBackoff(), 0),
        "protocol": 3,
        "health_check_interval": 0,
    }
    if address.deployment == "sentinel":
        return SentinelMaster(address, clock, timeout_s=timeout_s, options=options, tls=tls)
    if address.deployment == "cluster":
        connection_class = SSLConnection if address.tls else Connection
        shared = {**address.options, **options}

        def make(host: str, port: int) -> Server:
            pool = ConnectionPool(connection_class, host=host, port=port, **shared)
            return Server(trusting(pool, tls), clock, timeout_s=timeout_s, name=f"{host}:{port}")

        return Cluster(address.hosts, clock, make)
    return Server(trusting(ConnectionPool.from_url(url, **options), tls), clock, timeout_s=timeout_s)
