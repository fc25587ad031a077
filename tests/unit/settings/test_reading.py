"""Tests where settings come from, which place wins, and how a wrong one is named."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bridge.model.errors import WrongSettings
from bridge.settings.given import given_settings
from bridge.settings.roles import Role
from bridge.settings.settings import Settings
from tests.read_settings import read_in

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes a file below the test's folder, and returns its path."""

    def write(name: str, text: str) -> Path:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        return path

    return write


def complaints(environment: dict[str, str]) -> list[str]:
    with pytest.raises(WrongSettings) as raised:
        read_in(environment)
    return list(raised.value.complaints)


def test_later_place_wins_over_an_earlier_one(write: Write) -> None:
    keys = 'lanes = 2\nlease = "2s"\nworkers = 2\nhttp_port = 2\nprefix = "file"\namqp_url_file = "{}"\n'
    config = write("bridge.toml", keys.format(write("amqp", "amqp://u:file@h:1\n")))
    for name in ("lease", "workers", "http_port"):
        write(f"secrets/bridge_{name}", "3\n")
    for name in ("workers", "http_port"):
        credential = write(f"credentials/BRIDGE_{name}", "4\n")
    environment = {
        "BRIDGE_CONFIG": str(config),
        "BRIDGE_SECRETS_DIR": str(config.parent / "secrets"),
        "CREDENTIALS_DIRECTORY": str(credential.parent),
        "bridge_http_port": "5",
        "BRIDGE_PREFIX_FILE": str(write("prefix", " named \n")),
    }
    settings, found = read_in(environment), given_settings(environment, Settings.model_fields)
    assert (settings.lanes, settings.lease, settings.workers, settings.http_port) == (2, 3, 4, 5)
    assert (settings.prefix, settings.amqp_url) == ("named", "amqp://u:file@h:1")
    assert {name: (one.place, one.origin) for name, one in found.items()} == {
        "lanes": ("file", f"{config}: lanes"),
        "lease": ("secret", str(config.parent / "secrets" / "bridge_lease")),
        "workers": ("credential", str(credential.parent / "BRIDGE_workers")),
        "http_port": ("environment", "BRIDGE_HTTP_PORT"),
        "prefix": ("secret", str(config.parent / "prefix")),
        "amqp_url": ("secret", str(config.parent / "amqp")),
    }
    assert read_in(environment, lanes=9).lanes == 9
    assert read_in({"BRIDGE_CONFIG": "", "BRIDGE_SECRETS_DIR": ""}) == read_in({})


@pytest.mark.parametrize(
    ("keys", "name", "value"),
    [
        ('roles = ["api", "push"]', "roles", {Role.API, Role.PUSH}),
        ('roles = "api,push"', "roles", {Role.API, Role.PUSH}),
        ("bundles = false", "bundles", False),
        ("lease = 1500", "lease", 1_500),
        ('lease = "1m"', "lease", 60_000),
        ('prefix_file = "{folder}/named"', "prefix", "named"),
        ('[lmstfy_accounts]\nops = "s3cret"', "lmstfy_accounts", {"ops": "s3cret"}),
    ],
)
def test_value_of_the_file_is_read_as_the_variable_is(write: Write, keys: str, name: str, value: Any) -> None:
    folder = write("named", "named\n").parent
    assert getattr(read_in({"BRIDGE_CONFIG": str(write("a.toml", keys.format(folder=folder)))}), name) == value


def test_table_of_the_file_is_json(write: Write) -> None:
    keys = '[pools.eu]\namqp_url = "amqp://eu:1"\nredis_url = "redis://eu"\nnamespaces = ["shop"]'
    pools = read_in({"BRIDGE_CONFIG": str(write("a.toml", keys))}).pools or {}
    assert pools["eu"].namespaces == ("shop",)


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ("leese = 1", "a.toml: leese: is unknown; the nearest setting is lease; correct its name or remove it"),
        ("BRIDGE_LEASE = 1", "a.toml: BRIDGE_LEASE: is unknown; the nearest setting is lease; correct its"),
        ('amqp_ulr = "amqp://u:s3cret@h"', "a.toml: amqp_ulr: is unknown; the nearest setting is amqp_url; correct"),
        ("lease = true", "a.toml: lease: must be an integer of milliseconds"),
        ("lease = 1.5", "(given: '1.5')"),
        ("workers = 99", "a.toml: workers: Input should be less than or equal to 64 (given: '99')"),
        ('redis_url = "s3cret"', "a.toml: redis_url: the URL must begin with one of redis://"),
        ("lmstfy_accounts = {ops = [1, 's3cret']}", "a.toml: lmstfy_accounts: Input should be a valid string"),
        ('redis_url = "a"\nredis_url_file = "b"', "a.toml: redis_url: is set, and so is its file, "),
        ('redis_url_file = "/nowhere/redis"', "a.toml: redis_url_file: /nowhere/redis: No such file or directory"),
        ("lease 1", "a.toml: is no TOML: "),
    ],
)
def test_wrong_key_of_the_file_is_named_with_the_file(write: Write, keys: str, said: str) -> None:
    (line,) = complaints({"BRIDGE_CONFIG": str(write("a.toml", keys))})
    assert said in line
    assert "s3cret" not in line


def test_file_that_cannot_be_read_is_named_with_what_names_it(write: Write) -> None:
    binary = write("binary", "")
    binary.write_bytes(b"\xff")
    for environment, said in (
        ({"BRIDGE_CONFIG": "/nowhere/a.toml"}, "BRIDGE_CONFIG: /nowhere/a.toml: No such file or directory"),
        ({"BRIDGE_SECRETS_DIR": "/nowhere"}, "BRIDGE_SECRETS_DIR: /nowhere: No such file or directory"),
        ({"CREDENTIALS_DIRECTORY": "/nowhere"}, "CREDENTIALS_DIRECTORY: /nowhere: No such file or directory"),
        ({"BRIDGE_AMQP_URL_FILE": str(binary)}, f"BRIDGE_AMQP_URL_FILE: {binary}: is not UTF-8"),
        (
            {"BRIDGE_AMQP_URL": "amqp://h:1", "BRIDGE_AMQP_URL_FILE": str(binary)},
            "BRIDGE_AMQP_URL: is set, and so is its file, BRIDGE_AMQP_URL_FILE; unset one",
        ),
    ):
        assert complaints(environment) == [said]


def test_each_wrong_setting_has_its_line() -> None:
    lines = complaints({"BRIDGE_LEASE": "soon", "BRIDGE_LANES": "0", "BRIDGE_AMQP_URL": "s3cret"})
    assert sorted(line.partition(":")[0] for line in lines) == ["BRIDGE_AMQP_URL", "BRIDGE_LANES", "BRIDGE_LEASE"]
    assert "s3cret" not in "\n".join(lines)
