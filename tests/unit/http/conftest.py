"""Builds the application over a stand-in that records calls and answers with values that a test sets."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import httpx2
import pytest
from fastapi import FastAPI

from bridge.http.app import create_app
from bridge.http.server.fast_path import FastPath
from bridge.metrics import page
from bridge.model.message import Envelope, Message
from bridge.model.values import TopicPage
from bridge.settings.settings import Settings
from tests.recorded_actions import RecordedActions
from tests.records import record

CREATED_MS = 1_796_115_600_000  # 2026-12-01T09:00:00Z
RECORD = record(
    id="o-1001",
    created_ms=CREATED_MS,
    due_ms=CREATED_MS + 900_000,
    arrives_ms=CREATED_MS + 900_000,
    last_ms=CREATED_MS + 900_000,
    forget_ms=CREATED_MS + 9_000_000,
)
MESSAGE_JSON = {
    "topic": "orders",
    "id": "o-1001",
    "state": "waiting",
    "body": {"order": 1001},
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


class _Part:
    def __init__(self, whole: StandIn, name: str) -> None:
        self._whole = whole
        self._name = name

    def __getattr__(self, name: str) -> Callable[..., Coroutine[Any, Any, Any]]:
        async def call(*given: Any, **named: Any) -> Any:
            called = f"{self._name}.{name}"
            self._whole.calls.append((called, given, named))
            answer = self._whole.answers[called]
            if isinstance(answer, Exception):
                raise answer
            return await answer(*given, **named) if callable(answer) else answer

        return call


@dataclass
class StandIn:
    """Stands in for all pools and their services. `answers`: by the call's name, a value, an exception or a coroutine
    function."""

    answers: dict[str, Any] = field(default_factory=dict)
    calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = field(default_factory=list)
    settings: Settings = field(default_factory=lambda: Settings(max_body=1_000))
    started: list[str] = field(default_factory=list)
    actions: RecordedActions = field(default_factory=RecordedActions)

    def __getattr__(self, name: str) -> _Part:
        parts = {"sending", "upserting", "pulling", "settling", "changing", "lookup", "dead", "topics", "subscriptions"}
        if name in {*parts, "given_names"}:
            return _Part(self, name)
        raise AttributeError(name)

    @property
    def default(self) -> StandIn:
        return self

    def serving(self, topic: str) -> StandIn:
        return self

    def serving_all(self, topics: Sequence[str]) -> StandIn:
        return self

    async def topic_infos(self) -> Any:
        return await self.topics.infos()

    async def topic_page(self, **_: Any) -> TopicPage:
        return TopicPage(items=await self.topics.infos(), next_cursor=None)

    async def health(self) -> Any:
        return self.answers["health"]

    async def exposition(self) -> tuple[bytes, str]:
        return await page.render("", {})

    async def start(self) -> None:
        self.started.append("start")

    async def stop(self) -> None:
        self.started.append("stop")

    def message(
        self, *, body: bytes | None = b'{"order":1001}', content_type: str = "application/json", **changed: Any
    ) -> Message:
        return Message(record=replace(RECORD, **changed), envelope=Envelope(content_type=content_type, body=body))


@pytest.fixture(scope="session")
def whole() -> tuple[StandIn, FastPath[FastAPI]]:
    """One application for all tests, as building it takes 10 ms."""
    service = StandIn()
    return service, create_app(cast(Any, service))


@pytest.fixture
def service(whole: tuple[StandIn, FastPath[FastAPI]]) -> StandIn:
    service, _ = whole
    vars(service).update(vars(StandIn()))
    return service


@pytest.fixture
def app(service: StandIn, whole: tuple[StandIn, FastPath[FastAPI]]) -> FastPath[FastAPI]:
    return whole[1]


@pytest.fixture
async def client(app: FastPath[FastAPI]) -> AsyncIterator[httpx2.AsyncClient]:
    transport = httpx2.ASGITransport(app=app, raise_app_exceptions=False)
    async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
        yield client


@pytest.fixture
def message_json() -> dict[str, Any]:
    return dict(MESSAGE_JSON)
