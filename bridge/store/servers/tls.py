"""TLS of connections to Redis with a context that is loaded once."""

from __future__ import annotations

from ssl import SSLContext
from typing import Any

from redis.asyncio.connection import ConnectionPool, SSLConnection


def trusting(pool: ConnectionPool, context: SSLContext | None) -> ConnectionPool:
    """Has the pool's TLS connections use the context, where no option of its URL (`ssl_…`) says otherwise.

    redis-py would load the files for each connection, and believe the system's authorities besides the one given.
    """
    connection_class: Any = pool.connection_class
    own_options = any(name.startswith("ssl_") for name in pool.connection_kwargs)
    if context is not None and issubclass(connection_class, SSLConnection) and not own_options:

        class Trusting(connection_class):  # type: ignore[misc]
            def __init__(self, **options: Any) -> None:
                super().__init__(**options)
                self.ssl_context.context = context

        pool.connection_class = Trusting
    return pool
