"""Sends the README's first messages, as they are printed, to a running bridge."""

from __future__ import annotations

import asyncio
import shlex
import sys
from pathlib import Path

import httpx2
import orjson

from tests.command import command
from tests.docs.documents import blocks, text
from tests.integration.topic import Topic

README = text("README.md")
TOPIC = "hello"
COMMAND = ".venv/bin/delaybridge"


async def output_of(*command: str, cwd: Path | None = None) -> str:
    """Runs a program and returns its output. Its exit code must be 0."""
    process = await asyncio.create_subprocess_exec(
        *command, cwd=cwd, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    try:
        output, errors = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
    assert process.returncode == 0, errors.decode()
    return output.decode()


async def over_http(bridge_url: str) -> None:
    """Runs the four commands: the message is sent, looked up, pulled and acknowledged."""
    (block,) = (code for code in blocks(README, "sh") if code.startswith(COMMAND))
    answers = []
    for line in block.splitlines():
        program, *arguments = shlex.split(line)
        assert program == COMMAND
        ended = await command(*arguments, "--json", settings={"BRIDGE_URL": bridge_url})
        assert ended.exit_code == 0, ended.output
        answers.append(orjson.loads(ended.stdout))
    sent, found, pulled, acked = answers
    assert (sent["id"], sent["state"]) == ("hello-1", "waiting")
    assert found == sent
    assert (pulled["id"], pulled["body"], pulled["state"]) == ("hello-1", {"hello": "world"}, "leased")
    assert acked == {"id": "hello-1", "result": "acked"}


async def over_amqp(bridge_url: str, amqp_url: str, folder: Path) -> None:
    """Runs the Python script: the message is delayed and consumed, and its ack recorded. `folder`: for the script."""
    (script,) = blocks(README, "python")
    file = folder / "later.py"
    file.write_text(script)
    async with httpx2.AsyncClient(base_url=bridge_url, timeout=60) as client:
        topic = Topic(client, TOPIC)
        await topic.put_policy()
        assert await output_of(sys.executable, str(file), amqp_url) == 'hello-2 "over AMQP"\n'
        acked = await topic.until_state("hello-2", "acked")
    assert acked["body"] == "over AMQP"
