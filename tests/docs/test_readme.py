"""Runs the README's commands as they are printed, and checks its claims about make and set-up."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import orjson
import pytest

from bridge.local.rabbitmq import RabbitNode
from tests.docs.documents import PROJECT, blocks, text
from tests.docs.first_messages import README, output_of, over_amqp, over_http

PRINTED_URL = "http://127.0.0.1:8080"


def curls(named: str) -> list[str]:
    """Returns the curl commands of the block that contains the name."""
    (block,) = (code for code in blocks(README, "sh") if code.startswith("curl") and named in code)
    return block.splitlines()


async def answers_of(commands: list[str], bridge_url: str, cwd: Path) -> list[Any]:
    """Runs each command in a shell against the session's bridge, and returns the JSON that it prints."""
    assert all(PRINTED_URL in command for command in commands)
    return [
        orjson.loads(await output_of("sh", "-c", command.replace(PRINTED_URL, bridge_url), cwd=cwd))
        for command in commands
    ]


async def test_first_message_is_sent_looked_up_pulled_and_acknowledged(bridge_url: str) -> None:
    await over_http(bridge_url)


async def test_second_message_is_moved_listed_and_deleted(bridge_url: str, tmp_path: Path) -> None:
    sent, moved, listed, deleted = await answers_of(curls("bill-7"), bridge_url, tmp_path)
    assert sent["state"] == moved["state"] == "waiting"
    assert moved["due_at"] > sent["due_at"]
    assert [message["id"] for message in listed["items"]] == ["bill-7"]
    assert (deleted["id"], deleted["state"]) == ("bill-7", "deleted")


async def test_amqp_script_delays_consumes_and_records_its_ack(
    bridge_url: str, rabbit: RabbitNode, tmp_path: Path
) -> None:
    await over_amqp(bridge_url, rabbit.amqp_url, tmp_path)


@pytest.mark.parametrize("command", ["make run", "make test"])
def test_readme_shows_make_run_and_make_test(command: str) -> None:
    assert f"{command}\n" in blocks(README, "sh")


def test_every_named_make_target_exists_and_ci_runs_a_named_one() -> None:
    makefile = text("Makefile")
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    named = set(
        re.findall(r"make ([a-z-]+)\b", "\n".join([*blocks(README, "sh"), *re.findall(r"`([^`\n]+)`", README)]))
    )
    assert {"run", "test"} <= named <= targets
    (run_by_ci,) = re.findall(r"^make .*?([a-z]+) 2>&1", text(".ci/run"), re.MULTILINE)
    assert run_by_ci in named


def test_named_requirements_are_those_of_the_set_up() -> None:
    (version,) = re.findall(r'requires-python = ">=([\d.]+)"', text("pyproject.toml"))
    assert f"Python {version}" in README
    assert f"sys.version_info < ({version.replace('.', ', ')})" in text("deploy/setup.sh")
    (rabbitmq,) = re.findall(r"RabbitMQ ([\d.]+) or later", text("deploy/install-packages.sh"))
    assert f"RabbitMQ ({rabbitmq} or later)" in README


def test_readme_has_fewer_than_150_lines() -> None:
    assert len((PROJECT / "README.md").read_text().splitlines()) < 150
