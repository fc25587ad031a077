"""Sends literal requests to lmstfy's wire on a private bridge, and reads the answers from the socket."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from bridge.local.ports import free_ports
from bridge.local.rabbitmq import RabbitNode
from bridge.local.redis import RedisNode
from bridge.settings.settings import Settings
from tests.forked_bridge import ForkedBridge
from tests.integration.own import own_bridge

USER, PASSWORD = "ops", "s3cret"
BASIC = {"Authorization": "Basic b3BzOnMzY3JldA=="}  # ops:s3cret


@dataclass(frozen=True, slots=True)
class Answer:
    """An HTTP answer; the names of headers are in lower case."""

    status: int
    reason: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()

    @property
    def json(self) -> Any:
        return json.loads(self.body)


async def ask(
    port: int, request: str, headers: Mapping[str, str] | None = None, body: bytes = b"", *, patience_s: float = 60
) -> Answer:
    """Sends a request such as `PUT /path?query` over a new connection, with these headers and the ones that HTTP/1.1
    requires."""
    lines = [f"{request} HTTP/1.1", f"Host: 127.0.0.1:{port}", "Connection: close"]
    lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
    if body or request.startswith(("PUT", "POST")):
        lines.append(f"Content-Length: {len(body)}")
    async with asyncio.timeout(patience_s):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            writer.write("\r\n".join([*lines, "", ""]).encode() + body)
            await writer.drain()
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            answer = await reader.read()
        finally:
            writer.close()
    status_line, *fields = head.strip().split("\r\n")
    _, status, reason = status_line.split(" ", 2)
    named = {name.lower(): value for name, _, value in (field.partition(": ") for field in fields)}
    return Answer(int(status), reason, named, answer)


@dataclass(frozen=True, kw_only=True, slots=True)
class Lmstfy:
    """A bridge with the wire on its own ports. `own_port` serves the bridge's API, and the wire under /api/."""

    port: int
    admin_port: int
    own_port: int
    settings: Mapping[str, str]  # for further bridges beside it

    async def admin(self, request: str, body: bytes = b"", headers: Mapping[str, str] | None = None) -> Answer:
        return await ask(self.admin_port, request, BASIC if headers is None else headers, body)

    async def token(self, namespace: str) -> str:
        answer = await self.admin(f"POST /token/{namespace}?description=of+a+test")
        assert answer.status == 201, answer
        token: str = answer.json["token"]
        return token

    async def queue(self, namespace: str | None = None) -> Queue:
        """A queue that no other test uses, with a token for it."""
        namespace = namespace or f"ns-{uuid4().hex[:12]}"
        return Queue(self, namespace, "orders", await self.token(namespace))


@dataclass(frozen=True, slots=True)
class Queue:
    lmstfy: Lmstfy
    namespace: str
    name: str
    token: str

    @property
    def path(self) -> str:
        return f"/api/{self.namespace}/{self.name}"

    async def ask(
        self, method: str, rest: str = "", body: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> Answer:
        return await ask(
            self.lmstfy.port, f"{method} {self.path}{rest}", {"X-Token": self.token, **(headers or {})}, body
        )

    async def publish(self, body: bytes = b"hello", query: str = "", headers: Mapping[str, str] | None = None) -> str:
        answer = await self.ask("PUT", f"?{query}", body, headers)
        assert (answer.status, answer.json["msg"]) == (201, "published"), answer
        job_id: str = answer.json["job_id"]
        return job_id

    async def consume(self, query: str = "timeout=30&ttr=60") -> Any:
        """Returns a job, or a list of jobs."""
        answer = await self.ask("GET", f"?{query}")
        assert answer.status == 200, answer
        return answer.json

    async def idle(self) -> Answer:
        """Consumes for a second from a queue that stays empty."""
        return await ask(self.lmstfy.port, f"GET /api/{self.namespace}/idle?timeout=1", {"X-Token": self.token})

    async def is_empty(self) -> bool:
        answer = await self.ask("GET")
        if answer.status == 200:
            return False
        assert (answer.status, answer.json) == (404, {"msg": "no job available"})
        return True

    async def ack(self, job_id: str) -> None:
        answer = await self.ask("DELETE", f"/job/{job_id}")
        assert (answer.status, answer.body) == (204, b"")

    async def peek(self, job_id: str) -> Answer:
        return await self.ask("GET", f"/job/{job_id}")

    async def size(self) -> int:
        size: int = (await self.ask("GET", "/size")).json["size"]
        return size

    async def dead_letters(self) -> tuple[int, str]:
        content = (await self.ask("GET", "/deadletter")).json
        return content["deadletter_size"], content["deadletter_head"]


@asynccontextmanager
async def lmstfy_bridge(rabbit: RabbitNode, redis: RedisNode, folder: Path) -> AsyncIterator[Lmstfy]:
    port, admin_port = free_ports(2)
    async with own_bridge(rabbit, redis.url, folder, **_settings(port, admin_port)) as own:
        yield Lmstfy(port=port, admin_port=admin_port, own_port=own.bridge.port, settings=own.settings)


@asynccontextmanager
async def another_bridge(first: Lmstfy, folder: Path, **further: str) -> AsyncIterator[Lmstfy]:
    """A second process on the first one's virtual host and Redis prefix."""
    own_port, port, admin_port = free_ports(3)
    log_file = folder / f"another-{own_port}" / "bridge.log"
    bridge = ForkedBridge(log_file, own_port, {**first.settings, **_settings(port, admin_port), **further})
    await asyncio.to_thread(bridge.start)
    try:
        yield Lmstfy(port=port, admin_port=admin_port, own_port=own_port, settings=first.settings)
    finally:
        await asyncio.to_thread(bridge.kill)


def _settings(port: int, admin_port: int) -> dict[str, str]:
    return {
        "BRIDGE_LMSTFY_PORT": str(port),
        "BRIDGE_LMSTFY_ADMIN_PORT": str(admin_port),
        "BRIDGE_LMSTFY_ACCOUNTS": json.dumps({USER: PASSWORD}),
        # The default, which no wire may feel: the originals have no back-off.
        "BRIDGE_BACKOFF_FIRST": f"{Settings.model_fields['backoff_first'].default}ms",
    }
