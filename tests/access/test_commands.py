"""Tests `delaybridge token …` as an operator types it, and the start of a bridge without an access setting."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from pathlib import Path

import orjson
import pytest
from typer.testing import Result

from bridge.access.token import Token, sha256_of
from bridge.local.redis import RedisNode
from bridge.model.action import Action, ActionName
from bridge.store.client import Store
from bridge.store.kept.actions import StoredActions
from bridge.store.keys import Keys
from tests.access.conftest import Mint
from tests.command import command, run_command
from tests.forked_bridge import ForkedBridge

WRITTEN = re.compile(r"dbt_([0-9a-f]{12})_([0-9a-f]{64})")


@pytest.fixture(autouse=True)
def _environment(redis_node: RedisNode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BRIDGE_REDIS_URL", redis_node.url)
    monkeypatch.setenv("BRIDGE_REDIS_PREFIX", "commands")
    monkeypatch.setenv("COLUMNS", "300")


def run(*arguments: str, code: int = 0) -> Result:
    result = run_command("token", *arguments)
    assert result.exit_code == code, result.output
    return result


def create(*arguments: str) -> tuple[str, str]:
    """The id and the secret of a new token."""
    found = WRITTEN.fullmatch(run("create", *arguments).stdout.strip())
    assert found is not None
    return found[1], found[2]


def test_token_is_shown_once_and_stored_as_a_hash() -> None:
    token_id, secret = create(
        "shop", "--scope", "send", "--scope", "consume", "--namespace", "shop", "--expires", "90d"
    )
    table, listed = run("list").output, run("list", "--json").output
    assert secret not in table + listed
    (entry,) = [one for one in orjson.loads(listed) if one["id"] == token_id]
    assert entry["sha256"] == sha256_of(secret)
    assert entry["sha256"] not in table
    assert entry["expires_ms"] - entry["created_ms"] == 90 * 86_400_000
    assert Token.model_validate_json(orjson.dumps(entry)).is_of(secret.encode())
    (row,) = [line for line in table.splitlines() if line.startswith(token_id)]
    assert re.split(r"  +", row)[1:5] == ["shop", "send consume", "shop/...", "none"]


def test_new_token_has_the_given_scopes_and_limits() -> None:
    limits = ("--sends-per-s", "5", "--pulls-per-s", "6", "--max-body", "7", "--max-topics", "8")
    shown = orjson.loads(run("create", "a b", "--scope", "admin", "--every-topic", *limits, "--json").stdout)
    assert WRITTEN.fullmatch(shown.pop("token"))
    assert "sha256" not in shown
    assert {shown.pop("id"), shown.pop("created_ms")}
    assert shown == {
        "name": "a b",
        "scopes": ["admin"],
        "namespaces": [],
        "bare_topics": False,
        "every_topic": True,
        "sends_per_s": 5,
        "pulls_per_s": 6,
        "max_body": 7,
        "max_topics": 8,
        "expires_ms": None,
    }


def test_token_names_its_limit_of_topics_only_if_it_has_one() -> None:
    # A bridge that does not know the limit refuses a token with it, and takes one without.
    limited, _ = create("limited", "--scope", "send", "--every-topic", "--max-topics", "8")
    free, _ = create("free", "--scope", "send", "--every-topic")
    listed = {one["id"]: one for one in orjson.loads(run("list", "--json").output)}
    assert (listed[limited]["max_topics"], listed[free].keys() & {"max_topics"}) == (8, set())
    (row,) = [line for line in run("list").output.splitlines() if line.startswith(limited)]
    assert re.split(r"  +", row)[4] == "8 topics"


def test_revoked_token_is_no_longer_listed() -> None:
    (one, _), (other, _) = (create("x", "--scope", "look", "--bare-topics") for _ in range(2))
    run("revoke", one)
    listed = run("list").output
    assert (one in listed, other in listed) == (False, True)
    assert f"there is no token '{one}'" in run("revoke", one, code=1).stderr
    assert "there is no token 'nonsense'" in run("revoke", "nonsense", code=1).stderr


async def test_changes_of_tokens_are_recorded_as_actions_of_the_command_line(store: Store) -> None:
    stored = StoredActions(store, Keys("commands"))
    await store.command("DEL", Keys("commands").actions)
    token_id, _ = await asyncio.to_thread(create, "x", "--scope", "look", "--every-topic")
    await asyncio.to_thread(run, "list")
    await asyncio.to_thread(run, "revoke", token_id)
    await asyncio.to_thread(run, "revoke", token_id, code=1)
    found = [one.action for one in await stored.before(None, 10)]
    assert found == [
        Action(what=what, who="command line", target=token_id)
        for what in (ActionName.TOKEN_REVOKE, ActionName.TOKEN_CREATE)
    ]


@pytest.mark.expects_log("store.refused", at_least=0)  # once a minute at most
async def test_token_is_printed_although_redis_refuses_the_record_of_its_making(store: Store) -> None:
    key = Keys("commands").actions
    await store.command("DEL", key)
    await store.command("SET", key, "not a stream")
    ended = await asyncio.to_thread(run, "create", "x", "--scope", "look", "--every-topic")
    await store.command("DEL", key)
    assert WRITTEN.fullmatch(ended.stdout.strip())
    assert "token_create is done, but not among the recorded actions: Redis at " in ended.stderr
    assert "(WRONGTYPE " in ended.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--every-topic",), ["Missing option", "--scope"]),
        (("--scope", "all", "--every-topic"), ["--scope", "'all'", "look", "send", "consume", "admin"]),
        (("--scope", "send"), ["topics", "--every-topic", "--namespace", "--bare-topics"]),
        (("--scope", "send", "--every-topic", "--namespace", "a"), ["topics", "either"]),
        (("--scope", "send", "--namespace", "a/b"), ["--namespace", "'a/b'", "1 to 100"]),
        (("--scope", "send", "--every-topic", "--expires", "soon"), ["--expires", "'soon'"]),
        (("--scope", "send", "--every-topic", "--expires", "0"), ["--expires", "'0'", "1s to 36500d"]),
        (("--scope", "send", "--every-topic", "--sends-per-s", "0"), ["--sends-per-s", "0", "1 to 100000"]),
        (("--scope", "send", "--every-topic", "--pulls-per-s", "100001"), ["--pulls-per-s", "100001"]),
        (("--scope", "send", "--every-topic", "--max-body", "16777217"), ["--max-body", "16777217", "16777216"]),
        (("--scope", "send", "--every-topic", "--max-topics", "0"), ["--max-topics", "0", "1 to 1000"]),
        (("--scope", "send", "--every-topic", "--max-topics", "1001"), ["--max-topics", "1001", "1 to 1000"]),
    ],
)
def test_invalid_option_is_refused_with_its_limit(arguments: tuple[str, ...], words: list[str]) -> None:
    before = run("list").output
    errors = run("create", "shop", *arguments, code=2).stderr
    assert [word for word in words if word not in errors] == []
    assert run("list").output == before


@pytest.mark.parametrize("name", ["", " shop", "shöp", "x" * 101])
def test_token_name_that_lists_cannot_show_is_refused(name: str) -> None:
    assert "NAME" in run("create", name, "--scope", "send", "--every-topic", code=2).stderr


def test_commands_report_that_redis_did_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BRIDGE_REDIS_URL", "redis://127.0.0.1:1/0")
    for arguments in (("list",), ("revoke", "x"), ("create", "x", "--scope", "send", "--every-topic")):
        assert "Redis at 127.0.0.1:1 did not answer" in run(*arguments, code=1).stderr


def test_tokens_file_is_listed_and_never_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    token_id, _ = create("in the file", "--scope", "send", "--every-topic")
    file = tmp_path / "tokens.json"
    file.write_text(run("list", "--json").stdout)
    monkeypatch.setenv("BRIDGE_TOKENS_FILE", str(file))
    monkeypatch.setenv("BRIDGE_REDIS_URL", "redis://127.0.0.1:1/0")
    assert token_id in run("list").output
    for arguments in (("revoke", token_id), ("create", "x", "--scope", "send", "--every-topic")):
        assert "BRIDGE_TOKENS_FILE" in run(*arguments, code=2).stderr


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_public_bridge_without_an_access_setting_does_not_start(host: str) -> None:
    environment = {**os.environ, "BRIDGE_HTTP_HOST": host, "BRIDGE_HTTP_PORT": "0"}
    command = [sys.executable, "-m", "bridge", "serve"]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 2
    assert f"BRIDGE_HTTP_HOST is {host}, which other machines can reach" in ended.stderr
    assert "BRIDGE_ACCESS=tokens" in ended.stderr
    assert "BRIDGE_ACCESS=open" in ended.stderr


async def test_client_commands_end_with_6_without_a_token_that_allows_them(
    guarded: list[ForkedBridge], mint: Mint
) -> None:
    settings = {"BRIDGE_URL": guarded[0].url}
    await mint.make("look")
    look = mint.made[-1]
    for token, arguments, code, said in (
        (None, ("topics",), 6, "Set BRIDGE_TOKEN"),
        ("dbt_1", ("topics",), 6, "401 from"),
        (look, ("topics",), 0, ""),
        (look, ("send", "shop", "1"), 6, "The token does not allow this"),
    ):
        given = settings if token is None else {**settings, "BRIDGE_TOKEN": token}
        ended = await command(*arguments, settings=given)
        assert ended.exit_code == code, ended.output
        assert said in ended.stderr
        assert look not in ended.output
