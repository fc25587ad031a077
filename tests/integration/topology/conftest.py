"""A virtual host for each test, on the session's broker.

BRIDGE_TEST_AMQP_URL and BRIDGE_TEST_MANAGEMENT_URL name another broker instead, so the same tests meet other versions.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass

import aio_pika
import httpx2
import pytest
from aio_pika.abc import AbstractConnection

from bridge.local.rabbitmq import RabbitNode


@dataclass(frozen=True, kw_only=True)
class Broker:
    """A virtual host of one test: a connection to it, and the management API beside it."""

    vhost: str
    amqp_url: str
    management_url: str
    connection: AbstractConnection

    async def call(self, method: str, path: str, body: object = None) -> httpx2.Response:
        """One request to the management API; VHOST in the path stands for this virtual host."""
        async with httpx2.AsyncClient() as client:
            url = f"{self.management_url}/api/{path.replace('VHOST', self.vhost)}"
            response = await client.request(method, url, json=body)
            response.raise_for_status()
            return response


@pytest.fixture(scope="session")
def urls(request: pytest.FixtureRequest) -> tuple[str, str]:
    """AMQP and management URL, with user and password."""
    if amqp_url := os.environ.get("BRIDGE_TEST_AMQP_URL"):
        return amqp_url, os.environ["BRIDGE_TEST_MANAGEMENT_URL"]
    node: RabbitNode = request.getfixturevalue("rabbit")
    return node.amqp_url, node.management_url


@pytest.fixture
async def broker(urls: tuple[str, str]) -> AsyncIterator[Broker]:
    server_url, management_url = urls
    vhost = f"t-{uuid.uuid4().hex[:12]}"
    async with httpx2.AsyncClient(base_url=f"{management_url}/api/") as api:
        (await api.put(f"vhosts/{vhost}")).raise_for_status()
        everything = {"configure": ".*", "write": ".*", "read": ".*"}
        (await api.put(f"permissions/{vhost}/guest", json=everything)).raise_for_status()
        amqp_url = f"{server_url}{vhost}"
        async with await aio_pika.connect(amqp_url) as connection:
            yield Broker(vhost=vhost, amqp_url=amqp_url, management_url=management_url, connection=connection)
        (await api.delete(f"vhosts/{vhost}")).raise_for_status()
