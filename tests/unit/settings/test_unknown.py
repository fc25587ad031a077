"""Tests that an unknown variable is named with the nearest setting, and that variables of others are passed over."""

from __future__ import annotations

from pathlib import Path

import pytest

from bridge.settings.settings import Settings
from bridge.settings.unknown import complaints_about_unknown

KNOWN = Settings.model_fields


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("BRIDGE_REDIS_ULR", "BRIDGE_REDIS_URL"),
        ("BRIDGE_AMPQ_URL", "BRIDGE_AMQP_URL"),
        ("bridge_lane", "BRIDGE_LANES"),
        ("BRIDGE_REDIS_URL_FIEL", "BRIDGE_REDIS_URL_FILE"),
        ("BRIDGE_LMSTFY_ADMIN_PROT", "BRIDGE_LMSTFY_ADMIN_PORT"),
    ],
)
def test_unknown_variable_is_named_with_the_nearest_setting(name: str, nearest: str) -> None:
    (complaint,) = complaints_about_unknown({name: "s3cret", "PATH": "/bin"}, KNOWN)
    assert complaint == f"{name}: is unknown; the nearest setting is {nearest}; correct its name or remove it"


@pytest.mark.parametrize("name", ["BRIDGE_", "BRIDGE_XQZJ"])
def test_unknown_variable_without_a_near_setting_is_named_alone(name: str) -> None:
    assert complaints_about_unknown({name: "x"}, KNOWN) == [f"{name}: is unknown; correct its name or remove it"]


def test_every_setting_and_every_variable_of_others_is_passed_over() -> None:
    of_others = {
        "BRIDGE_TEST_REDIS": "single",
        "BRIDGE_LOCAL_DIR": ".local",
        "BRIDGE_URL": "http://127.0.0.1:8080",
        "BRIDGE_TOKEN": "x",
        "BRIDGE_CA": "/nowhere",
        "BRIDGE_CERT": "/nowhere",
        "BRIDGE_KEY": "/nowhere",
        "BRIDGE_SECRETS_DIR": "/nowhere",
        "BRIDGE_CONFIG": "/nowhere",
        "BRIDGE_AMQP_URL_FILE": "/nowhere",
        "BRIDGE_RABBITMQ_PASSWORD": "x",
        "BRIDGE_SERVICE_HOST": "10.0.0.1",
        "BRIDGE_SERVICE_PORT": "8080",
        "BRIDGE_SERVICE_PORT_HTTP": "8080",
        "BRIDGE_PORT": "tcp://10.0.0.1:8080",
        "BRIDGE_API_PORT_8080_TCP": "tcp://10.0.0.1:8080",
        "BRIDGE_API_PORT_8080_TCP_ADDR": "10.0.0.1",
        "BRIDGES": "x",
    }
    assert complaints_about_unknown({f"BRIDGE_{name.upper()}": "x" for name in KNOWN} | of_others, KNOWN) == []


def test_port_without_the_form_of_kubernetes_is_unknown() -> None:
    assert len(complaints_about_unknown({"BRIDGE_PORT": "8080"}, KNOWN)) == 1


@pytest.mark.parametrize("folder", ["BRIDGE_SECRETS_DIR", "CREDENTIALS_DIRECTORY"])
def test_unknown_file_of_the_secrets_is_named(tmp_path: Path, folder: str) -> None:
    for name in ("bridge_amqp_url", "bridge_redis_ulr", "..data"):
        (tmp_path / name).touch()
    (complaint,) = complaints_about_unknown({folder: str(tmp_path)}, KNOWN)
    assert complaint.startswith(f"{tmp_path}/bridge_redis_ulr: is unknown; the nearest setting is BRIDGE_REDIS_URL")
