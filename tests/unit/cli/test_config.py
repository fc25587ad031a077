"""Tests `delaybridge config …` and the option `--config`, as an operator types them."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from bridge.settings.settings import Settings
from tests.command import run_command

SECRET = {"BRIDGE_REDIS_URL": "redis://:s3cret@127.0.0.1:1/0"}


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in [name for name in os.environ if name.startswith("BRIDGE_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("BRIDGE_CONFIG", "")  # restored after the option has changed it
    file = tmp_path / "bridge.toml"
    file.write_text('lease = "1m"\nprefix = "a\\u001b[2J"\n')
    return file


def test_show_names_the_value_and_the_source_of_every_setting(config: Path) -> None:
    config.write_text('lease = "1m"\npush_allow = "http://10.0.0.0/8,\\nhooks.internal"\n')
    for arguments in (("--config", str(config), "config", "show"), ("config", "show", f"--config={config}")):
        ended = run_command(*arguments, settings=SECRET)
        rows = {line.split()[0]: line.split()[1:] for line in ended.stdout.splitlines()}
        assert rows["setting"] == ["value", "source", "origin"]
        assert rows["BRIDGE_LEASE"] == ["1m", "file", f"{config}:", "lease"]
        assert rows["BRIDGE_REDIS_URL"] == ["redis://:***@127.0.0.1:1/0", "environment", "BRIDGE_REDIS_URL"]
        assert rows["BRIDGE_LANES"] == ["1", "default", "null"]
        assert rows["BRIDGE_PUSH_ALLOW"][:2] == ["http://10.0.0.0/8,hooks.internal", "file"]
        assert (ended.exit_code, len(rows), ended.stderr) == (0, len(Settings.model_fields) + 1, "")
        assert "\x1b" not in ended.stdout


def test_show_as_json_is_one_object_a_line(config: Path) -> None:
    ended = run_command("config", "--config", str(config), "show", "--json", settings={**SECRET, "BRIDGE_PREFIX": "a"})
    rows = {row["setting"]: row for row in map(json.loads, ended.stdout.splitlines())}
    assert rows.keys() == {f"BRIDGE_{name.upper()}" for name in Settings.model_fields}
    assert rows["BRIDGE_LEASE"] == {
        "setting": "BRIDGE_LEASE",
        "value": "1m",
        "source": "file",
        "origin": f"{config}: lease",
    }
    assert rows["BRIDGE_LANES"]["value"] == 1
    assert (rows["BRIDGE_POOLS"]["value"], rows["BRIDGE_POOLS"]["origin"]) == (None, None)
    assert "s3cret" not in ended.stdout


@pytest.mark.parametrize(
    ("keys", "settings", "code", "said"),
    [
        ('lease = "1m"', SECRET, 0, "The settings are valid: 2 given, "),
        ("leese = 1", {}, 2, "bridge.toml: leese: is unknown; the nearest setting is lease"),
        ("lease = 'soon'", {}, 2, "bridge.toml: lease: must be"),
        ("", {"BRIDGE_HTTP_HOST": "0.0.0.0"}, 2, "BRIDGE_ACCESS is not set"),
        ('lmstfy_admin_port = 1\nlmstfy_admin_host = "::"', {}, 2, "set BRIDGE_LMSTFY_ACCOUNTS"),
        ('lmstfy_admin_port = 1\nlmstfy_admin_host = "::"\nroles = "push"', {}, 0, "3 given"),
        ("", {"BRIDGE_LEESE": "1"}, 2, "BRIDGE_LEESE: is unknown"),
    ],
)
def test_check_says_what_serve_would_refuse(
    config: Path, keys: str, settings: dict[str, str], code: int, said: str
) -> None:
    config.write_text(keys)
    ended = run_command("config", "check", "--config", str(config), settings=settings)
    assert (ended.exit_code, said in ended.output) == (code, True), ended.output


def test_other_commands_read_the_file_too(config: Path) -> None:
    config.write_text('redis_url = "redis://127.0.0.1:1/0"')
    ended = run_command("token", "list", "--config", str(config))
    assert (ended.exit_code, "127.0.0.1:1 did not answer" in ended.stderr) == (1, True), ended.output
    ended = run_command("token", "list", "--config", "/nowhere.toml")
    assert (ended.exit_code, "BRIDGE_CONFIG: /nowhere.toml: No such file" in ended.stderr) == (2, True)


def test_client_command_takes_the_option_beside_its_own(config: Path) -> None:
    ended = run_command("--config", str(config), "--url", "http://127.0.0.1:1", "topics")
    assert (ended.exit_code, "127.0.0.1:1" in ended.stderr) == (7, True), ended.output
