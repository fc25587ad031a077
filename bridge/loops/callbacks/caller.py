"""One call of a receiver, over connections that go to checked addresses only.

A name is looked up for each new connection, all its addresses are checked, and one of those is connected to: nobody can
give another address between the check and the connection. TLS is asked for the name, and for its certificate. There is
no proxy, no cookie, and no redirect is followed.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterable, Sequence
from typing import Any

import httpcore2

from bridge.loops.callbacks.decisions import Answer, Failure, Reason
from bridge.loops.callbacks.dns import Names, NameUnknown
from bridge.model.addresses import Allowed, Url, refusal_of_any

LONGEST_ANSWER_BYTES = 64 * 1024
# Servers close idle connections after five seconds and more; a call on one that is just being closed would fail.
_KEEP_ALIVE_S = 4.0


class _Forbidden(Exception):
    """The name leads where callbacks may not go."""


class _Checked(httpcore2.AnyIOBackend):
    """Connects to addresses that were checked."""

    def __init__(self, scheme: str, names: Names, allowed: Sequence[Allowed]) -> None:
        self._scheme = scheme
        self._names = names
        self._allowed = allowed

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - the library asks for it
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        addresses = await self._names.addresses(host)
        if why := refusal_of_any(Url(self._scheme, host, port, "/"), addresses, self._allowed):
            raise _Forbidden(f"{host} {why}")
        failed: Exception = NameUnknown(f"{host} has no address")
        for address in addresses:
            try:
                return await super().connect_tcp(str(address), port, timeout, local_address, socket_options)
            except httpcore2.ConnectError as error:
                failed = error
        raise failed


class Caller:
    """Keeps up to `connections` open, of all receivers together."""

    def __init__(self, names: Names, allowed: Sequence[Allowed], tls: ssl.SSLContext, *, connections: int) -> None:
        self._pools = {
            scheme: httpcore2.AsyncConnectionPool(
                ssl_context=tls,
                max_connections=connections,
                keepalive_expiry=_KEEP_ALIVE_S,
                network_backend=_Checked(scheme, names, allowed),
            )
            for scheme in ("http", "https")
        }

    async def post(
        self, url: Url, headers: Sequence[tuple[str, str]], body: bytes, *, timeout_ms: int
    ) -> Answer | Failure:
        """The answer, read to its end; or why there was none."""
        try:
            async with asyncio.timeout(timeout_ms / 1_000):
                return await self._post(url, headers, body)
        except TimeoutError:
            return Failure(Reason.TIMEOUT, f"no answer within {timeout_ms} ms")
        except _Forbidden as error:
            return Failure(Reason.ADDRESS, str(error))
        except (httpcore2.NetworkError, httpcore2.ProtocolError, httpcore2.TimeoutException, OSError) as error:
            return Failure(Reason.CONNECTION, f"{type(error).__name__}: {error}"[:200])

    async def _post(self, url: Url, headers: Sequence[tuple[str, str]], body: bytes) -> Answer | Failure:
        target = httpcore2.URL(scheme=url.scheme, host=url.host, port=url.port, target=url.target)
        sent = [(name.encode(), value.encode()) for name, value in headers]
        async with self._pools[url.scheme].stream("POST", target, headers=sent, content=body) as answer:
            size = 0
            async for part in answer.aiter_stream():
                size += len(part)
                if size > LONGEST_ANSWER_BYTES:
                    return Failure(Reason.ANSWER_TOO_LONG, f"the answer has more than {LONGEST_ANSWER_BYTES} bytes")
            retry_after = next((value for name, value in answer.headers if name.lower() == b"retry-after"), None)
            return Answer(answer.status, None if retry_after is None else retry_after.decode("latin-1"))

    async def close(self) -> None:
        for pool in self._pools.values():
            await pool.aclose()
