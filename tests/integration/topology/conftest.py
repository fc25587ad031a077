"""Makes a virtual host for each test, on the run's RabbitMQ."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass

import aio_pika
import httpx2
import pytest
from aio_pika.abc import AbstractConnection

from bridge.local.rabbitmq import RabbitNode
from tests.shared_servers import delete_vhost, make_vhost, vhost_url


@dataclass(frozen=True, kw_only=True)
class Broker:
    """A virtual host of one test: an AMQP connection to it, and the management API."""

    vhost: str
    amqp_url: str
    management_url: str
    connection: AbstractConnection

    async def call(self, method: str, path: str, body: object = None) -> httpx2.Response:
        """Sends a request to the management API. In the path, VHOST means this virtual host."""
        async with httpx2.AsyncClient(timeout=60) as client:
            url = f"{self.management_url}/api/{path.replace('VHOST', self.vhost)}"
            response = await client.request(method, url, json=body)
            response.raise_for_status()
            return response


@pytest.fixture
async def broker(rabbit: RabbitNode) -> AsyncIterator[Broker]:
    vhost = f"t-{uuid.uuid4().hex[:12]}"
    await asyncio.to_thread(make_vhost, rabbit, vhost)
    amqp_url = vhost_url(rabbit, vhost)
    async with await aio_pika.connect(amqp_url) as connection:
        yield Broker(vhost=vhost, amqp_url=amqp_url, management_url=rabbit.management_url, connection=connection)
    await asyncio.to_thread(delete_vhost, rabbit, vhost)
