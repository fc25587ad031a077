"""Tests BRIDGE_POOLS: valid values, and complaints that end `serve` with code 2."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from bridge.model.errors import WrongSettings
from bridge.settings.settings import Settings
from tests.read_settings import read_in

EU = {"amqp_url": "amqp://u:s3cret@eu:5672/", "redis_url": "redis://:s3cret@eu:6379/0"}
US = {"amqp_url": "amqp://u:s3cret@us:5672/", "redis_url": "redis://:s3cret@us:6379/0"}
OWN = {"amqp_url": "amqp://u:s3cret@127.0.0.1:5672/", "redis_url": "redis://127.0.0.1:6379/0"}
FIELDS = "amqp_url, redis_url, management_url, namespaces, prefix"
FORM = '{"name": {"amqp_url": …, "redis_url": …, "namespaces": […]}}'


def complaint(pools: Any) -> str:
    with pytest.raises(WrongSettings) as raised:
        read_in({"BRIDGE_POOLS": pools if isinstance(pools, str) else json.dumps(pools)})
    (line,) = raised.value.complaints
    return line


def test_a_pool_inherits_every_setting_but_its_servers_and_names() -> None:
    pools = {"eu": {**EU, "namespaces": ["shop"]}, "us": {**US, "prefix": "us", "management_url": "http://us:15672"}}
    settings = Settings.model_validate({"pools": json.dumps(pools), "prefix": "mine", "management_url": "http://a:1"})
    eu, us = settings.of_pool("eu"), settings.of_pool("us")
    assert settings.of_pool("default") is settings
    assert (eu.amqp_url, eu.redis_url, eu.management_url) == (EU["amqp_url"], EU["redis_url"], None)
    assert (eu.prefix, eu.ready_prefix, eu.dead_prefix, eu.redis_prefix) == ("mine", "ready.", "dead.", "delay")
    assert us.management_url == "http://us:15672"
    assert (us.prefix, us.ready_prefix, us.dead_prefix, us.redis_prefix) == ("us", "us-ready.", "us-dead.", "us")
    assert (eu.lease, eu.max_retry) == (settings.lease, settings.max_retry)
    assert "s3cret" not in repr(settings)


@pytest.mark.parametrize(
    ("pools", "says"),
    [
        ("[]", f"must be {FORM}"),
        ("{", "Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"),
        ('{"eu": {}, "eu": {}}', "an object has the same name twice; remove one of them"),
        ({"eu": "amqp://u:s3cret@h"}, f"eu: must be an object, as in {FORM}"),
        ({"e u": EU}, "a pool's name 'e u' must be 1 to 40 letters, digits, _ -"),
        ({"amqp://u:s3cret@h": EU}, "a pool's name must be 1 to 40 letters, digits, _ -"),
        (
            {"default": EU},
            "'default' is the pool of BRIDGE_AMQP_URL and BRIDGE_REDIS_URL; choose another name",
        ),
        ({"eu": {**EU, "amqp": 1}}, f"eu: unknown field 'amqp'; the fields are {FIELDS}"),
        ({"eu": {"amqp_url": EU["amqp_url"]}}, "eu.redis_url: must be a URL"),
        (
            {"eu": {**EU, "redis_url": "http://:s3cret@eu"}},
            "eu.redis_url: the URL must begin with one of redis://, rediss://, unix://, redis+sentinel://,"
            " rediss+sentinel://, redis+cluster://, rediss+cluster://",
        ),
        (
            {"eu": {**EU, "amqp_url": "http://u:s3cret@eu"}},
            "eu.amqp_url: the URL must have the form amqp://user:password@host:5672/vhost, or amqps://…;"
            " percent-encode what is neither a letter nor a digit in user and password",
        ),
        ({"eu": {**EU, "namespaces": "shop"}}, "eu.namespaces: must be a list"),
        ({"eu": {**EU, "namespaces": ["a/b"]}}, "eu.namespaces 'a/b' must be 1 to 100 letters, digits, _ . -"),
        ({"eu": {**EU, "prefix": "x" * 31}}, f"eu.prefix '{'x' * 31}' must be 1 to 30 letters, digits, _ -"),
        (
            {"eu": {**EU, "namespaces": ["shop"]}, "us": {**US, "namespaces": ["shop"]}},
            "namespaces: 'shop' is in the pools eu and us; leave it in one",
        ),
    ],
)
def test_a_complaint_names_field_and_limit_but_no_secret(pools: Any, says: str) -> None:
    line = complaint(pools)
    assert line == f"BRIDGE_POOLS: {says}"
    assert "s3cret" not in line


@pytest.mark.parametrize(
    ("pools", "which"),
    [
        ({"eu": {**EU, "amqp_url": OWN["amqp_url"]}}, "default and eu have the same virtual host"),
        ({"eu": {**EU, "amqp_url": f"{OWN['amqp_url']}%2F"}}, "default and eu have the same virtual host"),
        ({"eu": {**EU, "amqp_url": f"amqp://x:5672,{OWN['amqp_url']}"}}, "default and eu have the same virtual host"),
        ({"eu": EU, "us": {**EU, "redis_url": US["redis_url"]}}, "eu and us have the same virtual host"),
        ({"eu": {**EU, "amqp_url": OWN["amqp_url"], "prefix": "delay"}}, "default and eu have the same virtual host"),
        ({"eu": {**EU, "redis_url": "redis://127.0.0.1/"}}, "default and eu have the same Redis"),
        ({"eu": {**EU, "redis_url": "redis://127.0.0.1/?db=0"}}, "default and eu have the same Redis"),
    ],
)
def test_two_pools_with_the_same_names_on_one_server_are_refused(pools: Any, which: str) -> None:
    line = complaint(pools)
    assert line.startswith(f"BRIDGE_POOLS: {which}")
    assert "s3cret" not in line


@pytest.mark.parametrize(
    "own", [{"prefix": "eu"}, {"amqp_url": "amqp://h:5672/eu", "redis_url": "redis://127.0.0.1:6379/1"}]
)
def test_two_pools_may_share_servers_with_different_names(own: dict[str, str]) -> None:
    Settings.model_validate({"pools": json.dumps({"eu": {**OWN, **own}})})


def test_a_process_with_invalid_pools_exits_with_code_2() -> None:
    pools = json.dumps({"eu": {**EU, "amqp": 1}})
    ended = subprocess.run(
        [sys.executable, "-m", "bridge", "serve"],
        env={**os.environ, "BRIDGE_POOLS": pools},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (2, f"BRIDGE_POOLS: eu: unknown field 'amqp'; the fields are {FIELDS}\n")
