"""Answers the requests of a client as a test says, in the order that it says, and records them."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import httpx2

from delaybridge_client import Client, Retries, SyncClient

URL = "http://bridge.test/delay"
QUICK = Retries(attempts=4, first=timedelta(milliseconds=1), longest=timedelta(milliseconds=4))
MESSAGE: dict[str, Any] = {
    "topic": "orders",
    "id": "o-1",
    "state": "waiting",
    "body": {"order": 1},
    "content_type": "application/json",
    "headers": {},
    "labels": {},
    "to": None,
    "created_at": "2026-12-01T09:00:00.000Z",
    "due_at": "2026-12-01T09:15:00.000Z",
    "expires_at": None,
    "attempts": 0,
    "max_retry": 3,
    "lease_until": None,
    "ended_at": None,
    "reason": None,
}


def problem(status: int, slug: str = "unavailable", *, headers: dict[str, str] | None = None, **members: Any) -> Any:
    """An answer with a problem."""
    content = {
        "type": f"urn:problem-type:delaybridge:{slug}",
        "title": "A title",
        "status": status,
        "detail": "what is wrong",
        "errors": [],
        "request_id": "5f0c9a7d1e3b48266a1d0f27",
        **members,
    }
    sent = {"content-type": "application/problem+json", **(headers or {})}
    return httpx2.Response(status, headers=sent, content=json.dumps(content).encode())


def answer(content: Any = MESSAGE, status: int = 200, headers: dict[str, str] | None = None) -> httpx2.Response:
    """A successful answer."""
    return httpx2.Response(status, headers=headers, json=content)


@dataclass
class Scripted:
    """`answers`: a response or an error for each request; the last one repeats. `requests`: those that came."""

    answers: list[Any] = field(default_factory=lambda: [answer()])
    requests: list[httpx2.Request] = field(default_factory=list)

    @property
    def bodies(self) -> list[Any]:
        return [json.loads(request.content) for request in self.requests]

    def client(self, **settings: Any) -> Client:
        return Client(URL, transport=httpx2.MockTransport(self._handle_async), **{"retries": QUICK, **settings})

    def sync_client(self, **settings: Any) -> SyncClient:
        return SyncClient(URL, transport=httpx2.MockTransport(self._handle), **{"retries": QUICK, **settings})

    async def _handle_async(self, request: httpx2.Request) -> httpx2.Response:
        await request.aread()
        return self._handle(request)

    def _handle(self, request: httpx2.Request) -> httpx2.Response:
        self.requests.append(request)
        given = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(given, Exception):
            raise given
        response: httpx2.Response = given
        return response
