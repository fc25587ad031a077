"""Calls a bridge over HTTP, to hold back its messages for an exchange, and to count a topic's dead letters."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from http import HTTPStatus
from ssl import SSLContext
from typing import Any
from urllib.parse import quote

import httpx2

from topology.errors import TopologyError


class BridgeFailed(TopologyError):
    """The bridge refused a call, or did not answer."""


class Bridge:
    """The HTTP API of a bridge that works on the virtual host of the migrated exchanges. Each method raises
    BridgeFailed if the bridge refuses the call or does not answer."""

    def __init__(self, client: httpx2.AsyncClient, url: str) -> None:
        self._client = client
        self._url = url

    async def may_be_paused(self, topic: str) -> bool:
        """Returns whether the topic exists and is not paused."""
        found = await self._call("GET", topic)
        return found is not None and not found["policy"]["paused"]

    async def pause(self, topic: str) -> None:
        """Stops the releases and pulls of the topic, if the topic exists. All processes of the bridge follow within two
        seconds."""
        await self._call("POST", topic, "/pause")

    async def resume(self, topic: str) -> None:
        """Ends the pause, if the topic still exists."""
        await self._call("POST", topic, "/resume")

    async def dead(self, topic: str) -> int:
        """Returns how many dead letters the topic has; 0 if there is no such topic."""
        found = await self._call("GET", topic)
        return 0 if found is None else int(found["counts"].get("dead", 0))

    async def _call(self, method: str, topic: str, rest: str = "") -> Mapping[str, Any] | None:
        """Returns the decoded answer; None: there is no such topic. `rest`: the path behind the topic."""
        path = f"/v1/topics/{quote(topic, safe='')}{rest}"
        try:
            response = await self._client.request(method, self._url + path)
            content: Any = response.json()
        except (httpx2.HTTPError, ValueError) as error:
            reason = str(error) or type(error).__name__
            raise BridgeFailed(f"the bridge at {self._url} did not answer {method} {path}: {reason}") from None
        is_problem = response.headers.get("content-type", "").startswith("application/problem+json")
        if response.status_code == HTTPStatus.NOT_FOUND and is_problem:
            return None
        if response.is_error or not isinstance(content, dict):
            raise BridgeFailed(
                f"the bridge at {self._url}: {method} {path}: {response.status_code} {response.text[:300]}"
            )
        return content


@asynccontextmanager
async def bridge(url: str | None, token: str | None, tls: SSLContext) -> AsyncIterator[Bridge | None]:
    """Yields the bridge at the URL; None: there is no URL."""
    if url is None:
        yield None
        return
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with httpx2.AsyncClient(headers=headers, verify=tls) as client:
        yield Bridge(client, url.rstrip("/"))
