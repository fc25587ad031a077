"""Posts requests to receivers, over connections to checked addresses only.

For each new connection the client looks the host up, checks all its addresses, and connects to one of the addresses. So
no name server can swap the address between the check and the connection. TLS checks the certificate for the host's
name. The client uses no proxy, keeps no cookies and follows no redirects.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

import httpcore2

from bridge.loops.callbacks.decisions import Failure, Reason, Response
from bridge.loops.callbacks.resolver import Resolver, UnknownHost
from bridge.model.addresses import Allowed, Url, refusal_of_any

_SKIMMED_BYTES = 64 * 1024
_SKIM_S = 1.0
_BROKEN = (httpcore2.NetworkError, httpcore2.ProtocolError, httpcore2.TimeoutException, OSError)
# Servers close idle connections after five seconds or more. A call on a connection that is being closed would fail.
_KEEP_ALIVE_S = 4.0


class _Forbidden(Exception):
    """The host has an address that callbacks may not connect to."""


class _CheckedBackend(httpcore2.AnyIOBackend):
    """Connects only if all addresses of the host are allowed."""

    def __init__(self, scheme: str, resolver: Resolver, allowed: Sequence[Allowed]) -> None:
        self._scheme = scheme
        self._resolver = resolver
        self._allowed = allowed

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - the library passes it
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        addresses = await self._resolver.addresses(host)
        if refusal := refusal_of_any(Url(self._scheme, host, port, "/"), addresses, self._allowed):
            raise _Forbidden(f"{host} {refusal}")
        last_error: Exception = UnknownHost(f"{host} has no address")
        for address in addresses:
            try:
                return await super().connect_tcp(str(address), port, timeout, local_address, socket_options)
            except httpcore2.ConnectError as error:
                last_error = error
        raise last_error


class Client:
    """Posts callbacks to receivers. Opens at most `connections` connections for each scheme (http, https), over all
    receivers."""

    def __init__(
        self, resolver: Resolver, allowed: Sequence[Allowed], tls: ssl.SSLContext, *, connections: int
    ) -> None:
        self._pools = {
            scheme: httpcore2.AsyncConnectionPool(
                ssl_context=tls,
                max_connections=connections,
                keepalive_expiry=_KEEP_ALIVE_S,
                network_backend=_CheckedBackend(scheme, resolver, allowed),
            )
            for scheme in ("http", "https")
        }

    async def post(
        self, url: Url, headers: Sequence[tuple[str, str]], body: bytes, *, timeout_ms: int
    ) -> Response | Failure:
        """Posts a callback. Returns the receiver's response, or the reason why there is none. `timeout_ms`: the limit
        for the response's status and headers. The body of the response does not matter. The client reads its first 64
        KiB, so that the connection can be used again."""
        try:
            async with asyncio.timeout(timeout_ms / 1_000) as limit:
                return await self._post(url, headers, body, limit)
        except TimeoutError:
            return Failure(Reason.TIMEOUT, f"no answer within {timeout_ms} ms")
        except _Forbidden as error:
            return Failure(Reason.ADDRESS, str(error))
        except _BROKEN as error:
            return Failure(Reason.CONNECTION, f"{type(error).__name__}: {error}"[:200])

    async def _post(
        self, url: Url, headers: Sequence[tuple[str, str]], body: bytes, limit: asyncio.Timeout
    ) -> Response:
        target = httpcore2.URL(scheme=url.scheme, host=url.host, port=url.port, target=url.target)
        encoded = [(name.encode(), value.encode()) for name, value in headers]
        async with self._pools[url.scheme].stream("POST", target, headers=encoded, content=body) as response:
            limit.reschedule(None)
            with suppress(TimeoutError, *_BROKEN):
                async with asyncio.timeout(_SKIM_S):
                    await _skim(response)
            retry_after = next((value for name, value in response.headers if name.lower() == b"retry-after"), None)
            return Response(response.status, None if retry_after is None else retry_after.decode("latin-1"))

    async def close(self) -> None:
        for pool in self._pools.values():
            await pool.aclose()


async def _skim(response: httpcore2.Response) -> None:
    """Reads the body, but not much more than its first 64 KiB."""
    size = 0
    async for chunk in response.aiter_stream():
        size += len(chunk)
        if size > _SKIMMED_BYTES:
            return
