"""Talks to the master that Redis Sentinel names.

Each new connection asks the sentinels for the master. A failover cuts the connections to the old master or makes its
answers fail. The bridge does not retry commands in flight, because they may have run. Nor does it retry commands that a
demoted master refused (READONLY), although they have not run: the sentinels may not have agreed on a new master yet. A
caller that sends again after a second reaches the new master.
"""

from __future__ import annotations

from collections.abc import Mapping
from ssl import SSLContext
from typing import Any

from redis.asyncio.sentinel import Sentinel, SentinelConnectionPool

from bridge.settings.redis_url import RedisAddress
from bridge.store.clock import StoreClock
from bridge.store.servers.server import RedisServer, close_idle
from bridge.store.servers.tls import trusting

# If a sentinel does not answer within this time, the next one is asked.
_SENTINEL_TIMEOUT_S = 0.5


class _MasterPool(SentinelConnectionPool):
    """A pool of connections to the present master. It tells the clock when another machine becomes the master."""

    def __init__(self, service: str, sentinel: Sentinel, clock: StoreClock, **options: Any) -> None:
        super().__init__(service, sentinel, **options)  # type: ignore[no-untyped-call]
        self._clock = clock

    async def get_master_address(self) -> tuple[str, int]:
        before = self.master_address
        address: tuple[str, int] = await super().get_master_address()  # type: ignore[no-untyped-call]
        if address != before:
            self._clock.replaced()
        return address

    async def disconnect(self, inuse_connections: bool = True) -> None:
        await (super().disconnect() if inuse_connections else close_idle(self))


class SentinelMaster(RedisServer):
    def __init__(
        self,
        address: RedisAddress,
        clock: StoreClock,
        *,
        timeout_s: float,
        options: Mapping[str, Any],
        tls: SSLContext | None,
    ) -> None:
        """`options`: redis-py's options for connections to the master."""
        limit_s = min(timeout_s, _SENTINEL_TIMEOUT_S)
        self._sentinel = Sentinel(  # type: ignore[no-untyped-call]
            address.hosts,
            sentinel_kwargs={
                "ssl": address.tls,
                **address.sentinel_options,
                "socket_timeout": limit_s,
                "socket_connect_timeout": limit_s,
                **{name: options[name] for name in ("retry", "maint_notifications_config")},
            },
        )
        pool = _MasterPool(address.service, self._sentinel, clock, ssl=address.tls, **options)
        for sentinel in self._sentinel.sentinels:
            trusting(sentinel.connection_pool, tls)
        hosts = ",".join(f"{host}:{port}" for host, port in address.hosts)
        super().__init__(
            trusting(pool, tls),
            clock,
            timeout_s=timeout_s,
            address=f"the master {address.service!r} of the sentinels {hosts}",
        )

    async def close(self) -> None:
        await super().close()
        await self._sentinel.aclose()
