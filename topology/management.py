"""Calls RabbitMQ's management API, to read and to change objects of the broker."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from ssl import SSLContext
from typing import Any

import httpx2

from topology.errors import ManagementRefused


class Management:
    """RabbitMQ's management API. `where`: its host and port."""

    def __init__(self, client: httpx2.AsyncClient, base: httpx2.URL) -> None:
        self._client = client
        self._base = base
        self.where = f"{base.host}:{base.port}"

    async def get(self, path: str) -> Any:
        """Returns the decoded answer to `/api/<path>`.

        Raises:
            httpx2.HTTPStatusError: the API refused the question.
            httpx2.HTTPError: the API did not answer.
        """
        response = await self._client.get(self._base.join(f"/api/{path}"))
        response.raise_for_status()
        return response.json()

    async def change(self, method: str, path: str, content: Mapping[str, Any] | None = None) -> None:
        """Sends a request that changes something at `/api/<path>`. `content`: the JSON body of the request.

        Raises:
            ManagementRefused: the API refused the change.
            httpx2.HTTPError: the API did not answer.
        """
        response = await self._client.request(method, self._base.join(f"/api/{path}"), json=content)
        if response.is_error:
            raise ManagementRefused(f"{method} /api/{path}: {response.status_code} {_reason(response)}")


def _reason(response: httpx2.Response) -> str:
    try:
        return str(response.json()["reason"])
    except (ValueError, KeyError, TypeError):
        return response.text[:300]


@asynccontextmanager
async def management(url: str, tls: SSLContext | None) -> AsyncIterator[Management]:
    """Yields the management API at the URL, which holds user and password. `tls` None: trusts the system's certificate
    authorities."""
    given = httpx2.URL(url)
    # Errors show the URL, so it must not hold the password.
    base, login = given.copy_with(userinfo=b""), (given.username, given.password)
    async with httpx2.AsyncClient(auth=login, verify=tls or True) as client:
        yield Management(client, base)


def quoted(vhost: str) -> str:
    """Returns the name of a virtual host, percent-encoded as a part of a path."""
    return "".join(c if c.isalnum() and c.isascii() else "".join(f"%{b:02X}" for b in c.encode()) for c in vhost)
