"""Provides two bridges that ask for tokens, and tokens for them."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
import pytest_asyncio

from bridge.access.token import Token, new_id, new_secret, sha256_of, written
from bridge.local.ports import free_ports
from bridge.local.rabbitmq import RabbitNode
from bridge.local.redis import RedisNode
from bridge.store.client import Store
from bridge.store.kept.tokens import StoredTokens
from bridge.store.keys import Keys
from tests.forked_bridge import PATIENT, ForkedBridge
from tests.matrix.servers import Servers
from tests.shared_servers import SharedRabbit
from tests.vhosts import give_back_vhost, take_vhost


class Mint:
    """Makes tokens in Redis, and keeps them in `made`."""

    def __init__(self, store: Store) -> None:
        self.stored = StoredTokens(store, Keys("delay"))
        self.made: list[str] = []

    async def make(self, *scopes: str, **fields: Any) -> dict[str, str]:
        """Makes a token. Returns the HTTP header that presents it."""
        secret = new_secret()
        if not fields.keys() & {"namespaces", "bare_topics"}:
            fields["every_topic"] = True
        given = {
            "id": new_id(),
            "name": "test",
            "sha256": sha256_of(secret),
            "scopes": scopes,
            "created_ms": int(time.time() * 1_000),
            **fields,
        }
        token = Token.model_validate(given, strict=False)
        await self.stored.put(token.id, token.model_dump_json().encode())
        self.made.append(written(token.id, secret))
        return bearer(self.made[-1])


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def id_of(header: dict[str, str]) -> str:
    return header["Authorization"].split("_")[1]


@pytest.fixture(scope="session")
def redis_node(local_dir: Path, servers: Servers) -> Iterator[RedisNode]:
    """A Redis that only these tests use, as one of them counts its commands."""
    with servers.redis_node(local_dir / "redis-of-access", appendfsync="everysec") as node:
        yield node


@pytest.fixture(scope="module")
def rabbit(rabbit: SharedRabbit) -> Iterator[SharedRabbit]:
    """A virtual host that only these tests use: the worker's bridge has another Redis, and would take their copies."""
    vhost = take_vhost(rabbit)
    yield rabbit.at(vhost)
    give_back_vhost(rabbit, vhost)


@pytest.fixture(scope="module")
def guarded(local_dir: Path, rabbit: RabbitNode, redis_node: RedisNode) -> Iterator[list[ForkedBridge]]:
    """Two bridges, of which the first logs each request."""
    settings = {
        "BRIDGE_AMQP_URL": rabbit.amqp_url,
        "BRIDGE_REDIS_URL": redis_node.url,
        "BRIDGE_ACCESS": "tokens",
        "BRIDGE_MAX_BODY": "1000",
        **PATIENT,
    }
    one, other = (
        ForkedBridge(local_dir / "guarded" / name / "bridge.log", port, {**settings, "BRIDGE_ACCESS_LOG": logs})
        for name, port, logs in zip(("one", "other"), free_ports(2), ("true", "false"), strict=True)
    )
    with one, other:
        yield [one, other]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def clients(guarded: list[ForkedBridge]) -> AsyncIterator[list[httpx2.AsyncClient]]:
    one, other = guarded
    limits = httpx2.Limits(max_connections=100)
    async with (
        httpx2.AsyncClient(base_url=one.url, timeout=90, limits=limits) as first,
        httpx2.AsyncClient(base_url=other.url, timeout=90, limits=limits) as second,
    ):
        yield [first, second]


@pytest.fixture(scope="module")
def client(clients: list[httpx2.AsyncClient]) -> httpx2.AsyncClient:
    return clients[0]


@pytest_asyncio.fixture(scope="session")
async def store(redis_node: RedisNode) -> AsyncIterator[Store]:
    store = Store(redis_node.url, timeout_ms=5_000)
    yield store
    await store.close()


@pytest.fixture(scope="session")
def mint(store: Store) -> Mint:
    return Mint(store)
