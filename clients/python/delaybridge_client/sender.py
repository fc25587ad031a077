"""Sends operations over HTTP: one sender for asyncio, one without. The two senders differ only in `await`."""

from __future__ import annotations

import asyncio
import platform
import re
import ssl
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from importlib.metadata import version
from typing import Any, Final, Self, TypeVar

import httpx2

from delaybridge_client import encode
from delaybridge_client.errors import InvalidArgument
from delaybridge_client.operation import Answer, Operation, next_page
from delaybridge_client.retries import Again, Done, Retries, Tries
from delaybridge_client.values.page import Page

T = TypeVar("T")
USER_AGENT: Final = (
    f"delaybridge-client/{version('delaybridge-client')} "
    f"(python/{platform.python_version()}; httpx2/{httpx2.__version__})"
)
_TOKEN: Final = re.compile(r"[!-~]+")
_CONNECT_S: Final = 5.0
_LEAST_ANSWER_S: Final = 1.0  # a shorter last try would hide the error of the try before


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The address of a bridge, and the settings of a client's calls.

    `url`: the bridge's address, which may have a path: `https://host/delay`. `token`: the text that `delaybridge token
    create` prints; None: the bridge needs none. `timeout`: the time limit of one answer, besides the time that a pull
    asks to wait. `connections`: the most open connections. `ssl_context`: for authorities of your own or client
    certificates; None: the default authorities.
    """

    url: str
    token: str | None = None
    timeout: timedelta = timedelta(seconds=10)
    retries: Retries = field(default_factory=Retries)
    connections: int = 100
    ssl_context: ssl.SSLContext | None = None

    def __post_init__(self) -> None:
        try:
            url = httpx2.URL(self.url)
        except (httpx2.InvalidURL, TypeError) as error:
            raise InvalidArgument(f"url: {self.url!r} is no URL: {error}") from None
        if url.scheme not in {"http", "https"} or not url.host or url.query or url.fragment:
            raise InvalidArgument(
                f"url: {self.url!r} must be http:// or https:// with a host, and may have a path: http://127.0.0.1:8080"
            )
        if self.token is not None and not _TOKEN.fullmatch(self.token):
            raise InvalidArgument(
                "token: must be printable ASCII without spaces, as delaybridge token create prints it"
            )

    @property
    def base(self) -> str:
        """The bridge's address without a slash at its end."""
        return self.url.rstrip("/")

    def http_arguments(self) -> dict[str, Any]:
        """Returns the arguments of an HTTP client, which reuses connections."""
        headers = {"User-Agent": USER_AGENT, "Accept": "application/json, application/problem+json, text/plain"}
        if self.token is not None:
            headers["Authorization"] = f"Bearer {self.token}"
        # Plain HTTP needs no authorities, and loading them takes long.
        verify = self.ssl_context or self.base.startswith("https:")
        limits = httpx2.Limits(max_connections=self.connections, max_keepalive_connections=self.connections)
        return {"headers": headers, "limits": limits, "verify": verify}

    def request(self, operation: Operation[Any], left_s: float) -> dict[str, Any]:
        """Returns the arguments of one HTTP request. `left_s`: the seconds that are left for the answer."""
        answer_s = max(min((self.timeout + operation.wait).total_seconds(), left_s), _LEAST_ANSWER_S)
        body = None if operation.body is None else encode.document(operation.body)
        return {
            "method": operation.method,
            "url": self.base + encode.path(operation.path, operation.names),
            "params": encode.parameters(operation.query),
            "content": body,
            "headers": {**({} if body is None else {"Content-Type": "application/json"}), **operation.headers},
            "timeout": httpx2.Timeout(answer_s, connect=min(_CONNECT_S, answer_s)),
        }


class Sender:
    """Calls a bridge with asyncio."""

    def __init__(self, settings: Settings, transport: httpx2.AsyncBaseTransport | None = None) -> None:
        self.settings = settings
        self._http = httpx2.AsyncClient(transport=transport, **settings.http_arguments())

    async def call(self, operation: Operation[T], *, retries: Retries | None = None) -> T:
        """Makes one call, with retries. `retries`: the rules of retries for this call; None: the client's rules.

        Raises:
            DelaybridgeError: the bridge refused the call, or nobody answered in time.
        """
        tries = Tries(operation, retries or self.settings.retries, self.settings.base)
        while True:
            request = self.settings.request(operation, tries.left_s)
            try:
                response = await self._http.request(**request)
            except httpx2.TransportError as error:
                step: Done[T] | Again = tries.after_error(error)
            else:
                step = tries.after_answer(_answer(response))
            if isinstance(step, Done):
                return step.value
            await asyncio.sleep(step.pause_s)

    async def every(self, operation: Operation[Page[T]]) -> AsyncIterator[T]:
        """Yields the items of all pages, from the operation's page on."""
        following: Operation[Page[T]] | None = operation
        while following is not None:
            page = await self.call(following)
            for item in page.items:
                yield item
            following = next_page(following, page)

    async def close(self) -> None:
        """Closes the connections to the bridge."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class SyncSender:
    """Calls a bridge without asyncio. Threads may share it."""

    def __init__(self, settings: Settings, transport: httpx2.BaseTransport | None = None) -> None:
        self.settings = settings
        self._http = httpx2.Client(transport=transport, **settings.http_arguments())

    def call(self, operation: Operation[T], *, retries: Retries | None = None) -> T:
        """Makes one call, with retries. `retries`: the rules of retries for this call; None: the client's rules.

        Raises:
            DelaybridgeError: the bridge refused the call, or nobody answered in time.
        """
        tries = Tries(operation, retries or self.settings.retries, self.settings.base)
        while True:
            request = self.settings.request(operation, tries.left_s)
            try:
                response = self._http.request(**request)
            except httpx2.TransportError as error:
                step: Done[T] | Again = tries.after_error(error)
            else:
                step = tries.after_answer(_answer(response))
            if isinstance(step, Done):
                return step.value
            time.sleep(step.pause_s)

    def every(self, operation: Operation[Page[T]]) -> Iterator[T]:
        """Yields the items of all pages, from the operation's page on."""
        following: Operation[Page[T]] | None = operation
        while following is not None:
            page = self.call(following)
            yield from page.items
            following = next_page(following, page)

    def close(self) -> None:
        """Closes the connections to the bridge."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _answer(response: httpx2.Response) -> Answer:
    return Answer(response.status_code, response.headers, response.content)
