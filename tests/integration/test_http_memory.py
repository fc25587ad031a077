"""Measures the memory that a bridge takes for large requests, and for answers that nobody reads."""

from __future__ import annotations

import asyncio
import re
import socket
from collections import Counter
from pathlib import Path

import httpx2
import pytest

from bridge.local.rabbitmq import RabbitNode
from bridge.local.redis import RedisNode
from tests.forked_bridge import ForkedBridge
from tests.integration.own import own_bridge
from tests.integration.topic import Topic
from tests.waiting import pause

MIB = 1024 * 1024
MOST_ABOVE_IDLE = 150 * MIB  # two bodies grow beside each other in one heap, which keeps their former places
_PULLS = 64
MOST_OF_UNREAD = 250 * MIB  # 64 MiB unread, two pages in the making, and what the allocator keeps of them


class Memory:
    """The resident memory of a process, in bytes."""

    def __init__(self, bridge: ForkedBridge) -> None:
        self._folder = Path(f"/proc/{bridge.pid}")

    def now(self) -> int:
        return self._of("VmRSS")

    def forget_peak(self) -> None:
        (self._folder / "clear_refs").write_text("5")

    def peak(self) -> int:
        return self._of("VmHWM")

    def _of(self, name: str) -> int:
        found = re.search(rf"{name}:\s+(\d+) kB", (self._folder / "status").read_text())
        assert found is not None
        return int(found[1]) * 1024


@pytest.mark.parametrize(
    ("parts", "status"),
    [
        ((b'{"messages":[', b"{},", b"{}]}"), 422),
        ((b'{"messages":[[', b"{},", b"{}]]}"), 413),
        ((b'{"other":[', b'{"":0},', b"0]}"), 413),
        ((b'{"messages":[{"body":[', b"1e0000,", b"0]}]}"), 200),
    ],
    ids=["messages", "one message", "another member", "one body"],
)
async def test_large_refused_requests_take_little_memory(
    bridge: ForkedBridge, topic: Topic, parts: tuple[bytes, bytes, bytes], status: int
) -> None:
    begin, part, end = parts
    document = begin + part * (15 * MIB // len(part)) + end
    memory = Memory(bridge)
    idle = memory.now()
    memory.forget_peak()
    async with httpx2.AsyncClient(base_url=topic.client.base_url, timeout=90) as client:
        answers = await asyncio.gather(
            *(client.post(f"/v1/topics/{topic.name}/messages/batch", content=document) for _ in range(2))
        )
    assert [answer.status_code for answer in answers] == [status] * 2
    assert all(b'"status":201' not in answer.content for answer in answers)
    assert memory.peak() - idle < MOST_ABOVE_IDLE


async def lazy_client(bridge: ForkedBridge) -> asyncio.StreamWriter:
    """A client that reads no answers."""
    narrow = socket.socket()
    narrow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    narrow.connect(("127.0.0.1", bridge.port))
    _, writer = await asyncio.open_connection(sock=narrow)
    writer.transport.pause_reading()  # type: ignore[attr-defined]
    return writer


async def test_pages_that_nobody_reads_take_little_memory(bridge: ForkedBridge, topic: Topic) -> None:
    await topic.send_many(*({"body": "x" * 60_000, "delay": "1h"} for _ in range(100)))
    memory = Memory(bridge)
    idle = memory.now()
    memory.forget_peak()
    page = f"/v1/topics/{topic.name}/messages?limit=100"
    lazy = [await lazy_client(bridge) for _ in range(64)]
    for writer in lazy:
        writer.write(f"GET {page} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode() * 2)
    # Pages are made in turns, so the bridge has answered the others once it refuses one.
    while (refused := await topic.client.get(page)).status_code != 503:
        await pause()
    peak = memory.peak()
    await topic.send()
    ready = await topic.client.get("/health/ready")
    for writer in lazy:
        writer.transport.abort()
    assert "BRIDGE_MAX_BUFFERED" in refused.text
    assert peak - idle < MOST_OF_UNREAD
    assert (ready.status_code, ready.json()["status"]) == (200, "degraded")
    assert any("BRIDGE_MAX_BUFFERED" in finding["says"] for finding in ready.json()["findings"])
    while (await topic.client.get(page)).status_code != 200:
        await pause()


async def pulls_by_status(topic: Topic) -> Counter[str]:
    """Counts answered pulls. The server refuses some before they have an operation."""
    page = (await topic.client.get("/metrics")).text
    pulls = r'delaybridge_http_requests_total\{code="(\d+)",operation="pull"\} (\d+)'
    refused = r'delaybridge_http_refused_total\{status="(503)"\} (\d+)'
    answered: Counter[str] = Counter()
    for status, count in (*re.findall(pulls, page), *re.findall(refused, page)):
        answered[status] += int(count)
    return answered


async def test_pulls_that_begin_at_once_and_whose_answers_nobody_reads_take_little(
    rabbit: RabbitNode, redis_node: RedisNode, local_dir: Path
) -> None:
    size, count, limit = 60_000, 700, 8 * MIB
    async with own_bridge(rabbit, redis_node.url, local_dir, BRIDGE_MAX_BUFFERED=str(limit)) as own:
        topic, memory = own.topic, Memory(own.bridge)
        for start in range(0, count, 100):
            numbers = range(start, start + 100)
            sent = await topic.send_many(*({"id": f"m-{number}", "body": "x" * size} for number in numbers))
            assert {one["status"] for one in sent} == {201}
        idle = memory.now()
        memory.forget_peak()
        lazy = [await lazy_client(own.bridge) for _ in range(_PULLS)]
        wanted = b'{"max":100,"lease":"1s"}'
        head = f"POST /v1/topics/{topic.name}/pull HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(wanted)}\r\n\r\n"
        for writer in lazy:
            writer.write(head.encode() + wanted)
        while (answered := await pulls_by_status(topic)).total() < len(lazy):
            await pause()
        peak = memory.peak()
        assert {status for status, count in answered.items() if count} == {"200", "503"}
        for writer in lazy:
            writer.transport.abort()
        # An answer has 6 MB. The kernel's buffers hold a part of each, which the limit does not count, and a pull is
        # let in before its bodies are counted. So up to four answers are made.
        assert peak - idle < 4 * 7.5 * MIB, answered
        while (await topic.client.get(f"/v1/topics/{topic.name}")).status_code != 200:
            await pause()
        # Whoever reads gets all, also those whose answers nobody has read, once their leases have ended.
        left = {f"m-{number}" for number in range(count)}
        while left:
            pulled = await topic.pull(max=100, wait="5s")
            assert pulled
            left -= {one["id"] for one in pulled}
            await topic.ack_many(receipts=[one["receipt"] for one in pulled])
