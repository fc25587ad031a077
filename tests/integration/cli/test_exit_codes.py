"""Provokes each exit code of the client commands, and reads what they say: field, value, limit, host, next step."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from bridge.cli import failures
from bridge.local.rabbitmq import RabbitNode
from tests.command import command
from tests.integration.cli.calling import Calling
from tests.integration.topic import Topic


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("send TOPIC 1 --delay 1000d", ["delay: must be at most 999 days", "given: '1000d'", "limit: 86313600000"]),
        ("send TOPIC 1 --delay soon", ["delay: must be an integer of milliseconds", "given: 'soon'"]),
        ("send TOPIC hello", ["BODY", "'hello' is not JSON", "--text"]),
        ("send TOPIC 1 --header kind", ["--header", "'kind' must be NAME=VALUE"]),
        ("send TOPIC 1 --text --bytes", ["not both"]),
        ("send TOPIC /nowhere/body --file", ["'/nowhere/body': No such file"]),
        ("move TOPIC one", ["give exactly one of --delay and --deliver-at"]),
        ("change TOPIC one", ["give at least one field to change"]),
        ("send TOPIC 1 --if-exists keep", ["id: give the id that if_exists is about"]),
        ("list TOPIC --state asleep", ["has no state 'asleep'; the states are waiting"]),
        ("list TOPIC --limit 0", ["--limit"]),
        ("pull TOPIC --max 101", ["max: ", "given: 101"]),
        ("ack TOPIC", ["give 1 to 1000 ids or receipts"]),
        ("dead drop TOPIC", ["the id of one, or --max"]),
        ("watch TOPIC --every 1ms", ["from 100ms to 1h"]),
        ("watch --id one", ["name one topic with --id"]),
        ("topics set TOPIC --backoff {", ["--backoff", "'{' is not JSON"]),
        ("subscriptions set TOPIC https://h.example/ --secret-file /nowhere/secret", ["can't be read"]),
        ("lst TOPIC", ["No such command 'lst'", "'list'"]),
        ("get TOPIC one --url ftp://h", ["'ftp://h' is no URL of a bridge"]),
        ("get TOPIC one --url http://h:99999", ["is no URL of a bridge"]),
        ("get TOPIC one --url http://u:p@h", ["give a token instead"]),
        ("get TOPIC one --token ä", ["--token", "printable ASCII"]),
    ],
)
async def test_wrong_argument_is_named_with_its_value_and_limit(cli: Calling, arguments: str, said: list[str]) -> None:
    ended = await cli.run(*arguments.replace("TOPIC", "codes").split(), code=failures.WRONG)
    assert [words for words in said if words not in " ".join(ended.stderr.split())] == []
    assert ended.stdout == ""


async def test_what_does_not_exist_and_what_its_state_forbids(cli: Calling, topic: Topic) -> None:
    missing = await cli.run("get", topic.name, "nobody", code=failures.NOT_FOUND)
    assert f"404 from {cli.url}" in missing.stderr
    assert "`delaybridge list TOPIC`" in missing.stderr
    await cli.run("topics", "show", topic.beside("unknown").name, code=failures.NOT_FOUND)
    await cli.run("ack", topic.name, "nobody", code=failures.NOT_FOUND)
    await topic.send(id="one", delay="1h")
    assert "not_leased" in (await cli.run("ack", topic.name, "one", "nobody", code=failures.FORBIDDEN_BY_STATE)).stdout
    await cli.run("topics", "remove", topic.name, code=failures.FORBIDDEN_BY_STATE)
    await topic.delete("one")
    refused = await cli.run("move", topic.name, "one", "--delay", "1s", code=failures.FORBIDDEN_BY_STATE)
    assert "state: deleted" in refused.stderr


async def test_server_that_is_no_bridge_or_does_not_answer_is_named(rabbit: RabbitNode) -> None:
    url = f"http://127.0.0.1:{rabbit.management_port}"
    other = await Calling(url).run("topics", code=failures.FAILED)
    assert f"{url} answered" in other.stderr
    assert "no answer of a bridge" in other.stderr
    away = await Calling("http://127.0.0.1:1").run("topics", code=failures.UNAVAILABLE)
    assert "no bridge answers at http://127.0.0.1:1" in away.stderr
    assert "make run" in away.stderr


async def test_without_url_and_token_the_bridge_of_make_run_is_called(cli: Calling, tmp_path: Path) -> None:
    running = {"http": cli.url, "amqp": "", "redis": "", "management": None, "pids": {"bridge": [os.getpid()]}}
    (tmp_path / "run.json").write_text(json.dumps(running))
    settings = {"BRIDGE_LOCAL_DIR": str(tmp_path)}
    assert cli.url in (await command("version", settings=settings)).stdout
    with_token = await command("version", settings={**settings, "BRIDGE_TOKEN": "dbt_1"})
    assert with_token.exit_code == failures.WRONG
    assert "set BRIDGE_URL" in with_token.stderr


def test_ctrl_c_ends_a_watch_with_130(bridge_url: str) -> None:
    # A shell ignores Ctrl-C in what it runs in the background, and its programs inherit that.
    program = ["env", "--default-signal=INT", sys.executable, "-m", "bridge"]
    watching = subprocess.Popen([*program, "watch", "--url", bridge_url, "--every", "1h"], stdout=subprocess.PIPE)
    assert watching.stdout is not None
    assert watching.stdout.readline().startswith(b"at ")
    watching.send_signal(signal.SIGINT)
    watching.communicate()
    assert watching.returncode == failures.INTERRUPTED
