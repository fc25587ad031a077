"""Lends virtual hosts of RabbitMQ to tests, one after another, in whichever worker they run.

A bridge on a new virtual host declares some 180 queues, and RabbitMQ deletes them with the host: over a second of CPU.
So a host that a test leaves with nothing but its wheel is emptied and lent again. Each host that may be lent is a file
in the node's folder. The worker that removes the file has the host.
"""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import aio_pika
import httpx2
from aio_pika.abc import AbstractChannel

from bridge.local.rabbitmq import RabbitNode
from tests.shared_servers import delete_vhost, make_vhost, vhost_url
from tests.waiting import pause
from topology import plan
from topology.definitions import export
from topology.names import Names

_EMPTY_WITHIN_S = 5.0
_DEFINITIONS = {
    "exchanges": ("name", "type", "arguments"),
    "queues": ("name", "arguments"),
    "bindings": ("source", "destination", "destination_type", "routing_key"),
}


def take_vhost(rabbit: RabbitNode) -> str:
    """Returns a virtual host that nothing uses: without any object, or with the wheel that bridges declare."""
    for spare in _spare(rabbit).iterdir():
        with suppress(FileNotFoundError):
            spare.unlink()
            return spare.name
    vhost = f"own-{uuid4().hex[:12]}"
    make_vhost(rabbit, vhost)
    return vhost


def give_back_vhost(rabbit: RabbitNode, vhost: str) -> None:
    """Empties the virtual host, or deletes it if a test has left more or less than a wheel. Its clients have to be
    gone."""
    with ThreadPoolExecutor(1) as thread:  # an event loop may run in this one
        reusable = thread.submit(asyncio.run, _emptied(rabbit, vhost)).result()
    if reusable:
        (_spare(rabbit) / vhost).touch()
    else:
        delete_vhost(rabbit, vhost)


def _spare(rabbit: RabbitNode) -> Path:
    """The folder with a file for each host that may be lent."""
    folder = rabbit.data_dir / "spare-vhosts"
    folder.mkdir(exist_ok=True)
    return folder


async def _emptied(rabbit: RabbitNode, vhost: str) -> bool:
    """Deletes all topics, and all messages of the wheel. Returns whether nothing but an empty wheel is left."""
    wheel = plan.core(Names()) + plan.slots(Names())
    queues = {queue.name for queue in wheel.queues}
    async with (
        httpx2.AsyncClient(base_url=f"{rabbit.management_url}/api/", timeout=60) as management,
        await aio_pika.connect(vhost_url(rabbit, vhost)) as connection,
    ):
        found, wanted = await _definitions(management, vhost), export(wheel)
        names = {queue["name"] for queue in found["queues"]}
        if not queues <= names or _differ(found, wanted, "exchanges"):
            return False
        channel = await connection.channel()
        for name in names - queues:
            await channel.queue_delete(name)
        if not await _purged(channel, sorted(queues)):
            return False
        found = await _definitions(management, vhost)
        return not any(found[others] for others in ("policies", "parameters")) and not any(
            _differ(found, wanted, kind) for kind in _DEFINITIONS
        )


async def _purged(channel: AbstractChannel, queues: list[str]) -> bool:
    """Purges the queues until none has a consumer or a message. Messages may come back from clients that have gone, and
    move on in the wheel meanwhile."""
    until_s = time.monotonic() + _EMPTY_WITHIN_S
    while time.monotonic() < until_s:
        counts = [await (await channel.get_queue(name, ensure=False)).purge() for name in queues]
        looks = [(await channel.declare_queue(name, passive=True)).declaration_result for name in queues]
        if not any(count.message_count for count in counts) and not any(
            look.message_count or look.consumer_count for look in looks
        ):
            return True
        await pause()
    return False


async def _definitions(management: httpx2.AsyncClient, vhost: str) -> dict[str, Any]:
    answer = await management.get(f"definitions/{vhost}")
    found: dict[str, Any] = answer.raise_for_status().json()
    return found


def _differ(found: dict[str, Any], wanted: dict[str, Any], kind: str) -> bool:
    return _rows(found[kind], _DEFINITIONS[kind]) != _rows(wanted[kind], _DEFINITIONS[kind])


def _rows(rows: list[dict[str, Any]], members: tuple[str, ...]) -> set[str]:
    return {repr([sorted(row[m].items()) if isinstance(row[m], dict) else row[m] for m in members]) for row in rows}
