"""Tests that a setting is shown in a form that can be set again, and never with a password."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.model.durations import format_duration, parse_duration_ms
from bridge.settings.amqp_urls import without_password
from bridge.settings.reading import SECRETS
from bridge.settings.settings import Settings
from bridge.settings.shown import shown
from tests.read_settings import read_in


@pytest.mark.parametrize(
    ("url", "masked"),
    [
        ("amqp://guest@h:5672/v", "amqp://guest@h:5672/v"),
        ("amqp://u:p%40:x@h:1/v,amqps://u:p@i:2", "amqp://u:***@h:1/v,amqps://u:***@i:2"),
        ("amqp://h:1,amqp://u:p@i:2", "amqp://h:1,amqp://u:***@i:2"),
        ("redis://:a,b@c@h:1/0", "redis://:***@h:1/0"),
        (
            "redis+sentinel://u:p@a:1,b/main?sentinel_password=p&db=1",
            "redis+sentinel://u:***@a:1,b/main?sentinel_password=***&db=1",
        ),
        ("unix:///run/redis?db=1&p%61ssword=p", "unix:///run/redis?db=1&p%61ssword=***"),
        ("redis://h?ssl_password=p#x", "redis://h?ssl_password=***#x"),
    ],
)
def test_passwords_of_a_url_are_masked(url: str, masked: str) -> None:
    assert without_password(url) == masked


def test_no_setting_shows_a_password() -> None:
    pool = {
        "amqp_url": "amqp://u:s3cret@eu:1",
        "redis_url": "redis://:s3cret@eu",
        "namespaces": ["shop"],
        "prefix": "eu",
    }
    given: dict[str, Any] = {
        "amqp_url": "amqp://u:s3cret@h:1",
        "redis_url": "redis://:s3cret@h",
        "management_url": "http://u:s3cret@h:1",
        "pools": json.dumps({"eu": pool, "us": {**pool, "prefix": "us"}}).replace("shop", "s", 1),
        "task_services": json.dumps({"mail": {"url": "https://h/x", "secret": "whsec_" + "s3cret00" * 6}}),
        "lmstfy_accounts": json.dumps({"ops": "s3cret"}),
    }
    assert given.keys() == SECRETS
    settings = Settings(**given)
    texts = {name: str(shown(settings, name)) for name in given}
    assert [name for name, text in texts.items() if "s3cret" in text or "***" not in text] == []
    masked = {"amqp_url": "amqp://u:***@eu:1", "redis_url": "redis://:***@eu"}
    assert json.loads(texts["pools"])["us"] == {"namespaces": ["shop"], "prefix": "us", **masked}
    assert json.loads(texts["task_services"]) == {"mail": {"url": "https://h/x", "secret": "***"}}


def test_shown_value_can_be_set_again() -> None:
    settings = Settings.model_validate(
        {"push_allow": "http://10.0.0.0/8,hooks.internal", "roles": "push,api", "lease": "90m", "tls_ca": None}
    )
    values = {name: shown(settings, name) for name in Settings.model_fields}
    assert (values["push_allow"], values["roles"], values["lease"], values["tls_ca"]) == (
        "http://10.0.0.0/8,hooks.internal",
        "api,push",
        "90m",
        None,
    )
    texts = {name: value if isinstance(value, str) else json.dumps(value) for name, value in values.items()}
    again = {f"BRIDGE_{name.upper()}": texts[name] for name in texts if values[name] is not None and name != "amqp_url"}
    assert read_in(again) == settings


@given(st.integers(0, 10**12))
def test_duration_is_shown_in_a_form_that_is_read_as_the_same(duration_ms: int) -> None:
    text = format_duration(duration_ms)
    assert parse_duration_ms(int(text) if text.isdigit() else text) == duration_ms
