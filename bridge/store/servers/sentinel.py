"""The master that Redis Sentinel names.

Each new connection asks the sentinels where the master is. A failover cuts the connections to the old one, or their
answers fail; nothing of what was under way is asked again, as it may have run. Nor is what a demoted master refused
(READONLY), although it has not run: the sentinels may not have agreed on another yet, and a caller that sends again
after its second finds that one.
"""

from __future__ import annotations

from collections.abc import Mapping
from ssl import SSLContext
from typing import Any

from redis.asyncio.sentinel import Sentinel, SentinelConnectionPool

from bridge.settings.redis_url import RedisAddress
from bridge.store.clock import StoreClock
from bridge.store.servers.server import Server
from bridge.store.servers.tls import trusting

# So long one sentinel is waited for before the next one is asked.
_SENTINEL_TIMEOUT_S = 0.5


class _MasterPool(SentinelConnectionPool):
    """Connections to the master of the moment. `clock` is told when that is another machine."""

    def __init__(self, service: str, sentinel: Sentinel, clock: StoreClock, **options: Any) -> None:
        super().__init__(service, sentinel, **options)  # type: ignore[no-untyped-call]
        self._clock = clock

    async def get_master_address(self) -> tuple[str, int]:
        before = self.master_address
        address: tuple[str, int] = await super().get_master_address()  # type: ignore[no-untyped-call]
        if address != before:
            self._clock.replaced()
        return address


class SentinelMaster(Server):
    def __init__(
        self,
        address: RedisAddress,
        clock: StoreClock,
        *,
        timeout_s: float,
        options: Mapping[str, Any],
        tls: SSLContext | None,
    ) -> None:
        """`options`: redis-py's, of connections to the master."""
        limit_s = min(timeout_s, _SENTINEL_TIMEOUT_S)
        self._sentinel = Sentinel(  # type: ignore[no-untyped-call]
            address.hosts,
            sentinel_kwargs={
                "ssl": address.tls,
                **address.sentinel_options,
                "socket_timeout": limit_s,
                "socket_connect_timeout": limit_s,
                "retry": options["retry"],
            },
        )
        pool = _MasterPool(address.service, self._sentinel, clock, ssl=address.tls, **address.options, **options)
        for one in self._sentinel.sentinels:
            trusting(one.connection_pool, tls)
        super().__init__(trusting(pool, tls), clock, timeout_s=timeout_s)

    async def close(self) -> None:
        await super().close()
        await self._sentinel.aclose()
