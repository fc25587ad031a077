"""Tests the examples of other languages: each sends or publishes with a delay, consumes, and ends the message."""

from __future__ import annotations

import asyncio
import re
import subprocess
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import pytest
import pytest_asyncio

from bridge.local.rabbitmq import RabbitNode
from bridge.local.redis import RedisNode
from bridge.model.durations import parse_instant_ms
from tests.clients.node import install, run
from tests.docs.documents import PROJECT, blocks
from tests.integration.own import Own, own_bridge

EXAMPLES: Final = PROJECT / "clients" / "examples"
README: Final = (EXAMPLES / "README.md").read_text()
LANGUAGES: Final = ("go", "java", "node", "php")
BUILT: Final = {"GOCACHE": str(PROJECT / ".local" / "go-cache")}  # a second run compiles nothing


def needs(language: str) -> None:
    """Skips the test, and says what is missing, if the language can't run here."""
    missing = run("sh", "deploy/client-packages.sh", language, folder=PROJECT).split()
    if missing:
        install_them = f"sudo apt-get install --no-install-recommends {' '.join(missing)}"
        pytest.skip(f"{' and '.join(missing)} missing, so no example in {language} runs: {install_them}")
    if language == "node" and (why := install(EXAMPLES / "node")):
        pytest.skip(why)


def command(language: str, protocol: str) -> str:
    """The command for this example, as the README has it for Debian's packages."""
    lines = [line for block in blocks(README, "sh") for line in block.splitlines() if f"examples/{language} " in line]
    found = [line for line in lines if re.search(rf"{protocol}\S*\.\w+$", line.replace("/main", ""), re.IGNORECASE)]
    assert len(found) == 1, (language, protocol, found)
    return found[0]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def own(rabbit: RabbitNode, redis_node: RedisNode, local_dir: Path) -> AsyncIterator[Own]:
    async with own_bridge(rabbit, redis_node.url, local_dir / "examples") as own:
        yield own


@pytest.mark.timeout(300)
@pytest.mark.parametrize("protocol", ["http", "amqp"])
@pytest.mark.parametrize("language", LANGUAGES)
async def test_example_sends_with_a_delay_and_ends_the_message(own: Own, language: str, protocol: str) -> None:
    await asyncio.to_thread(needs, language)
    topic = own.with_fresh_topic().topic
    await topic.put_policy()  # the ready queue exists before its first message
    environment = {
        "DELAYBRIDGE_URL": own.bridge.url,
        "AMQP_URL": own.settings["BRIDGE_AMQP_URL"],
        "TOPIC": topic.name,
        **BUILT,
    }

    began_ms = round(time.time() * 1_000)
    printed = await asyncio.to_thread(
        run, "sh", "-c", command(language, protocol), folder=PROJECT, environment=environment
    )

    message_ids = re.findall(r"^sent (\S+)", printed, re.MULTILINE)
    assert len(message_ids) == (1 if protocol == "http" else 2), printed
    assert len(printed.splitlines()) == 3 * len(message_ids), printed
    for message_id in message_ids:
        # Node handles deliveries side by side, so lines of another message may come between.
        assert re.search(rf'^got {message_id} \{{"order": ?1001\}}$', printed, re.MULTILINE), printed
        assert printed.index(f"got {message_id} ") < printed.index(f"acked {message_id}\n"), printed
        ended = await topic.until_state(message_id, "acked")
        assert ended["attempts"] == (1 if protocol == "http" else 0)  # RabbitMQ's own deliveries are not counted
        assert parse_instant_ms(ended["due_at"]) - began_ms >= 1_000


def test_an_unknown_language_is_refused() -> None:
    done = subprocess.run(
        ["sh", "deploy/client-packages.sh", "cobol"], cwd=PROJECT, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "cobol is no language of clients/" in done.stderr
