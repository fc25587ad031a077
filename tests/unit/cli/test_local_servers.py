"""Tests that commands ask the servers of a running `make run`, but only if the environment names no server."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from bridge.cli.local_servers import local_servers
from tests.command import run_command

RUNNING: dict[str, Any] = {
    "http": "http://127.0.0.1:8080",
    "amqp": "amqp://guest:guest@127.0.0.1:1/",
    "redis": "redis://127.0.0.1:2/0",
    "management": "http://127.0.0.1:3",
    "pids": {"rabbitmq": 1, "redis": 1, "bridge": [os.getpid()]},
}
SERVERS = {
    "amqp_url": "amqp://guest:guest@127.0.0.1:1/",
    "redis_url": "redis://127.0.0.1:2/0",
    "management_url": "http://guest:guest@127.0.0.1:3",
}
NO_PID = 2**22 + 1  # more than Linux allows


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "run.json").write_text(json.dumps(RUNNING))
    return tmp_path


@pytest.fixture
def environment(folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    for name in [name for name in os.environ if name.startswith("BRIDGE_")]:
        monkeypatch.delenv(name)
    return {"BRIDGE_LOCAL_DIR": str(folder)}


def test_servers_are_those_of_the_run_file(environment: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert local_servers(environment) == SERVERS
    said = capsys.readouterr().err
    assert (said.count("\n"), "127.0.0.1:1/" in said, "guest:guest" in said) == (1, True, False)


@pytest.mark.parametrize("name", ["BRIDGE_AMQP_URL", "BRIDGE_REDIS_URL", "bridge_redis_url", "BRIDGE_SECRETS_DIR"])
def test_environment_that_names_a_server_is_left_as_it_is(
    environment: dict[str, str], capsys: pytest.CaptureFixture[str], name: str
) -> None:
    assert local_servers({**environment, name: "x"}) == {}
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("content", [None, "", "[]", {**RUNNING, "pids": {"bridge": [NO_PID]}}, {"pids": {}}])
def test_run_file_without_a_running_bridge_is_passed_over(
    environment: dict[str, str], folder: Path, content: object
) -> None:
    if content is None:
        (folder / "run.json").unlink()
    else:
        (folder / "run.json").write_text(content if isinstance(content, str) else json.dumps(content))
    assert local_servers(environment) == {}


@pytest.mark.parametrize(
    ("command", "asked"),
    [("audit", "127.0.0.1:1)"), ("token list", "127.0.0.1:2 did not"), ("topology verify", "127.0.0.1:1/:")],
)
def test_each_command_asks_them(environment: dict[str, str], command: str, asked: str) -> None:
    ended = run_command(*command.split(), settings=environment)
    assert ended.exit_code == 1
    assert asked in ended.stderr
    assert "asks the servers of the running" in ended.stderr
