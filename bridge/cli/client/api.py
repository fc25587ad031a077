"""Calls a bridge over HTTP."""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator, Mapping
from typing import Any, Final, Self
from urllib.parse import quote

import httpx2

from bridge.cli.client.answer import Answer
from bridge.cli.client.errors import NotABridge, NotSecure, Refused, Unanswered
from bridge.model.tls import tls_failure

CONNECT_S: Final = 5.0
ANSWER_S: Final = 90.0  # a pull waits for up to 60 s
_GATEWAY: Final = (502, 504)
_PAGE: Final = 1_000


class Api:
    """Makes the calls of one command. `replayed`: whether the last answer says that an earlier send made the message,
    and this one changed nothing. `etag`: the ETag of the message in the last answer; None: the answer has none."""

    def __init__(self, url: str, token: str | None, tls: ssl.SSLContext | None) -> None:
        """`token`: None for a bridge without tokens. `tls`: None for plain HTTP."""
        self.url = url
        self.replayed = False
        self.etag: str | None = None
        headers = {"Accept": "application/json", **({"Authorization": f"Bearer {token}"} if token else {})}
        self._client = httpx2.Client(
            headers=headers,
            timeout=httpx2.Timeout(ANSWER_S, connect=CONNECT_S),
            verify=tls or False,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def call(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        query: Mapping[str, Any] | None = None,
        headers: Mapping[str, str | None] | None = None,
    ) -> Answer:
        """Makes one call and returns its answer. Leaves out members of `query` and `headers` that are None.

        Raises:
            CallFailed: the bridge refused the call, nobody answered, or another server answered.
        """
        again = "Try again with the same --id." if _is_send(method, path) else "Try again."
        try:
            answer = self._client.request(
                method,
                self.url + path,
                content=body,
                params={name: value for name, value in (query or {}).items() if value is not None},
                headers={
                    **({"Content-Type": "application/json"} if body is not None else {}),
                    **{name: value for name, value in (headers or {}).items() if value is not None},
                },
            )
        except httpx2.TransportError as error:
            raise self._failed(error, again) from None
        return self._read(answer, again)

    def pages(self, path: str, query: Mapping[str, Any], most: int) -> Iterator[list[Answer]]:
        """Yields the pages of a list until the list ends, or until `most` items have come. Raises the errors of
        `call`."""
        cursor = None
        while most > 0:
            page = self.call("GET", path, query={**query, "limit": min(most, _PAGE), "cursor": cursor})
            items = page.items()
            yield items
            most -= len(items)
            cursor = page.value["next_cursor"]
            if cursor is None:
                return

    def _failed(self, error: httpx2.TransportError, again: str) -> NotSecure | Unanswered:
        if (reason := tls_failure(error)) is not None:
            return NotSecure(
                f"{self.url} was not called: {reason}\n  "
                "--ca or BRIDGE_CA names the authority to trust, --cert and --key a client certificate."
            )
        if isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout):
            return Unanswered(
                f"no bridge answers at {self.url}: {error}\n  "
                "Start one with `make run`, or name another by --url or BRIDGE_URL."
            )
        return Unanswered(
            f"{self.url} did not answer: {str(error) or type(error).__name__}\n  "
            f"Nobody knows whether the call was done: look at the state. {again}"
        )

    def _read(self, answer: httpx2.Response, again: str) -> Answer:
        kind = answer.headers.get("content-type", "").partition(";")[0]
        if kind == "application/problem+json":
            raise Refused(self.url, answer.json(), again)
        said = f"{self.url} answered {answer.status_code} with {kind or 'no content type'}"
        if answer.status_code in _GATEWAY:
            raise Unanswered(f"{said}: a proxy did not reach the bridge\n  {again}")
        if answer.status_code not in (200, 201, 202) or kind != "application/json":
            raise NotABridge(f"{said}, which is no answer of a bridge\n  Check the address: --url or BRIDGE_URL.")
        self.replayed = "idempotent-replay" in answer.headers
        self.etag = answer.headers.get("etag")
        return Answer(answer.text)


def _is_send(method: str, path: str) -> bool:
    return method == "POST" and path.endswith("/messages")


def topic_path(topic: str, rest: str = "") -> str:
    return f"/v1/topics/{quote(topic, safe='')}{rest}"


def message_path(topic: str, message_id: str, rest: str = "") -> str:
    return topic_path(topic, f"/messages/{quote(message_id, safe='')}{rest}")


def document(members: Mapping[str, Any]) -> bytes:
    """Returns a JSON object for a request. Leaves out members that are None. A value of the type `bytes` is JSON
    already."""
    written = (
        b"%b:%b" % (json.dumps(name).encode(), value if isinstance(value, bytes) else json.dumps(value).encode())
        for name, value in members.items()
        if value is not None
    )
    return b"{%b}" % b",".join(written)
