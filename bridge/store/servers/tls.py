"""Gives connections to Redis a TLS context that is loaded only once."""

from __future__ import annotations

from ssl import SSLContext
from typing import Any

from redis.asyncio.connection import ConnectionPool, SSLConnection


def trusting(pool: ConnectionPool, context: SSLContext | None) -> ConnectionPool:
    """Makes the pool's TLS connections use the context, unless the URL has TLS options (`ssl_…`). Returns the pool.
    `context` None: changes nothing.

    Without the context redis-py loads the certificate files for each connection, and also trusts the system's
    authorities.
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
