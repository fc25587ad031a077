"""Runs the examples of the Python client, and the code in its README, as programs of their own."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import httpx2

from bridge.model.webhooks import key_of, signatures
from delaybridge_client import Client, NewMessage
from tests.docs.documents import PROJECT, blocks

CLIENT = PROJECT / "clients" / "python"
EXAMPLES = CLIENT / "examples"
PRINTED_URL = "http://127.0.0.1:8080"
SECRET = "whsec_MDEyMzQ1Njc4OWFiY2RlZmdoaWprbG1ub3BxcnN0dXY="


class Running:
    """A program that runs, and its lines."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process

    async def line(self) -> str:
        assert self.process.stdout is not None
        return (await self.process.stdout.readline()).decode().strip()


@asynccontextmanager
async def running(program: Path, *arguments: str) -> AsyncIterator[Running]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(program), *arguments, stdout=asyncio.subprocess.PIPE
    )
    try:
        yield Running(process)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def output(program: Path, *arguments: str) -> str:
    async with running(program, *arguments) as run:
        written, _ = await run.process.communicate()
        assert run.process.returncode == 0
        return written.decode()


async def test_send_example_sends_moves_lists_and_deletes(bridge_url: str) -> None:
    lines = (await output(EXAMPLES / "send.py", bridge_url)).splitlines()
    assert lines[0].startswith("waits until ")
    assert any(line.endswith("{'customer': 42}") for line in lines)
    assert lines[-2:] == ["deleted", "there is no message 'no-such-bill' in the topic 'bills'"]


async def test_consume_example_handles_messages_and_stops_by_a_signal(
    bridge_url: str, client: Client, topic: str
) -> None:
    await client.send_many(topic, [NewMessage("now", id="now"), NewMessage("later", id="later")])
    async with running(EXAMPLES / "consume.py", bridge_url, topic) as run:
        assert {await run.line(), await run.line()} == {"order now attempt 1", "order later attempt 1"}
        run.process.send_signal(signal.SIGTERM)
        assert (await run.line()).startswith("stopped Counts(pulled=2, acked=1, nacked=1, late=0)")
        assert await run.process.wait() == 0
    assert (await client.look_up(topic, "later")).reason == "not before noon"


async def test_sync_consume_example_handles_messages(bridge_url: str, client: Client, topic: str) -> None:
    await client.send(topic, {"number": 1})
    async with running(EXAMPLES / "consume_sync.py", bridge_url, topic) as run:
        assert await run.line() == "order {'number': 1}"


async def test_receiver_example_verifies_callbacks() -> None:
    async with running(EXAMPLES / "receive_callbacks.py", SECRET, "0") as run, httpx2.AsyncClient() as http:
        url = f"http://127.0.0.1:{(await run.line()).removeprefix('receives on ')}/"
        now, body = int(datetime.now(UTC).timestamp()), b'{"order":1001}'
        headers = {
            "webhook-id": "msg_1",
            "webhook-timestamp": str(now),
            "webhook-signature": signatures([key_of(SECRET)], "msg_1", now, body),
            "x-delay-topic": "orders",
            "x-delay-id": "o-1001",
        }
        assert (await http.post(url, content=body, headers=headers)).status_code == 204
        assert await run.line() == "orders o-1001 {'order': 1001}"
        assert (await http.post(url, content=b"{}", headers=headers)).status_code == 400


async def test_code_of_the_readme_runs(bridge_url: str, tmp_path: Path) -> None:
    (first, *_) = blocks((CLIENT / "README.md").read_text(), "python")
    assert PRINTED_URL in first
    program = tmp_path / "first.py"
    program.write_text(first.replace(PRINTED_URL, bridge_url))
    assert "hello later" in await output(program)
