"""Provides camellia's wire alone, on a stand-in for the service."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx2
import pytest
import pytest_asyncio
from fastapi import FastAPI

from bridge.http.guard import Guard
from bridge.http.wires.camellia.wire import router
from tests.wires.camellia.asking import Clock
from tests.wires.camellia_service import StandIn


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def service() -> StandIn:
    return StandIn()


@pytest.fixture
def app(service: StandIn, clock: Clock) -> FastAPI:
    app = FastAPI()
    app.include_router(router(service.service, Guard(None), now_s=clock))
    return app


@pytest_asyncio.fixture
async def client(app: FastAPI) -> AsyncIterator[httpx2.AsyncClient]:
    transport = httpx2.ASGITransport(app)
    async with httpx2.AsyncClient(transport=transport, base_url="http://bridge/camellia") as client:
        yield client
