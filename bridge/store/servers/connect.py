"""Makes the object through which the bridge talks to the Redis servers of a URL."""

from __future__ import annotations

from ssl import SSLContext
from typing import Any

from redis.asyncio.connection import Connection, ConnectionPool, SSLConnection
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.maint_notifications import MaintNotificationsConfig

from bridge.settings.redis_url import parse_redis_url
from bridge.store.clock import StoreClock
from bridge.store.servers.cluster import Cluster
from bridge.store.servers.sentinel import SentinelMaster
from bridge.store.servers.server import RedisServer
from bridge.store.servers.servers import Servers
from bridge.store.servers.tls import trusting


def connect(url: str, clock: StoreClock, *, timeout_s: float, tls: SSLContext | None = None) -> Servers:
    """Returns the servers that the URL names: one, the master of a Sentinel, or a cluster. They connect when they are
    first used. `clock`: learns the servers' time from their answers. `timeout_s`: the time limit of a call. `tls`: the
    context for a TLS URL that has no `ssl_…` options.

    Raises:
        ValueError: the URL is malformed. The text says why without showing the URL.
    """
    address = parse_redis_url(url)
    options: dict[str, Any] = {
        # `RedisServer` limits the whole call. With a limit here, redis-py writes in a task that it awaits by
        # `asyncio.wait_for`, which on Python 3.11 loses a cancellation that comes as the task ends.
        "socket_timeout": None,
        "socket_connect_timeout": timeout_s,
        "retry": Retry(NoBackoff(), 0),
        "health_check_interval": 0,
        # With these notifications, redis-py gives out connections that Redis has closed.
        "maint_notifications_config": MaintNotificationsConfig(enabled=False),
    }
    # The URL may ask for the other protocol: `protocol=2`.
    options = {"protocol": 3, **address.options, **options}
    if address.deployment == "sentinel":
        return SentinelMaster(address, clock, timeout_s=timeout_s, options=options, tls=tls)
    if address.deployment == "cluster":
        connection_class = SSLConnection if address.tls else Connection

        def make(host: str, port: int) -> RedisServer:
            pool = ConnectionPool(connection_class, host=host, port=port, **options)
            name = f"{host}:{port}"
            return RedisServer(trusting(pool, tls), clock, timeout_s=timeout_s, address=name, name=name)

        return Cluster(address.hosts, clock, make)
    pool = ConnectionPool.from_url(url, **options)
    where = pool.connection_kwargs
    socket_path = where.get("path")
    return RedisServer(
        trusting(pool, tls),
        clock,
        timeout_s=timeout_s,
        address=str(socket_path or f"{where.get('host', 'localhost')}:{where.get('port', 6_379)}"),
    )
