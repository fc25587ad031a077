"""Helps the tests of Youzan's wire and its descendants: raw requests, unique names, and documented scripts."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import httpx2
import orjson

from tests.docs.documents import PROJECT
from tests.integration.topic import Topic
from tests.wires.lmstfy import Answer, ask

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Caller:
    """Calls the session's bridge. No other test uses its topics and ids: all begin with `name`."""

    port: int
    client: httpx2.AsyncClient
    name: str = field(default_factory=lambda: f"job-{uuid4().hex[:12]}")

    def topic(self, suffix: str = "a") -> Topic:
        """Returns the topic as a client of the bridge's own API."""
        return Topic(self.client, f"{self.name}.{suffix}")

    async def raw(self, request: str, body: str | bytes = b"", headers: dict[str, str] | None = None) -> Answer:
        content = body.encode() if isinstance(body, str) else body
        return await ask(self.port, request, headers, content, patience_s=200)

    async def post(self, path: str, **members: Any) -> Json:
        """Posts the body, and returns the answer's JSON."""
        answer = await self.raw(f"POST {path}", orjson.dumps(members))
        assert answer.status == 200, answer
        content: Json = answer.json
        return content


async def exchange_with_expect(port: int, path: str, body: bytes) -> tuple[bytes, bytes]:
    """Sends a request that waits for `100 Continue`. Returns the bytes that arrive before the body is sent, and those
    after."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nExpect: 100-continue\r\n"
        writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode())
        interim = await reader.readuntil(b"\r\n\r\n")
        writer.write(body)
        return interim, await reader.read()
    finally:
        writer.close()


async def lines_of(script: str, **environment: str) -> list[Any]:
    """Runs a script of docs/wires. Returns the JSON of each line that is not a heading."""
    process = await asyncio.create_subprocess_exec(
        str(PROJECT / "docs" / "wires" / script),
        env={**os.environ, **environment},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    output, errors = await process.communicate()
    assert (process.returncode, errors) == (0, b"")
    return [orjson.loads(line) for line in output.decode().splitlines() if not line.endswith(":")]
