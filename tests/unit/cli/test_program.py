"""Starts the program `delaybridge` itself, once for each command. All else about commands is tested in process."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

NO_REDIS_URL = {"BRIDGE_REDIS_URL": "http://127.0.0.1:6379/0"}


@pytest.mark.parametrize(
    ("arguments", "settings", "code", "said"),
    [
        ("serve", NO_REDIS_URL, 2, "BRIDGE_REDIS_URL: the URL must begin with"),
        ("token create shop --scope all --every-topic", {}, 2, "'all'"),
        ("dev", {"BRIDGE_HTTP_PORT": "x"}, 2, "BRIDGE_HTTP_PORT is 'x'"),
        (
            "serve",
            {"BRIDGE_REDIS_ULR": "redis://:s3cret@h/"},
            2,
            "BRIDGE_REDIS_ULR: is unknown; the nearest setting is",
        ),
        ("topology show --no-slots", {"BRIDGE_TEST_ANY": "x"}, 0, "delay.checkpoint"),
        ("audit", {"BRIDGE_AMQP_URL": "amqp://127.0.0.1:1/"}, 1, "(asked RabbitMQ at 127.0.0.1:1)"),
        ("--version", {}, 0, "delaybridge 0."),
    ],
)
def test_each_command_starts_and_ends_with_its_code(
    arguments: str, settings: dict[str, str], code: int, said: str
) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "bridge", *arguments.split()],
        env={**os.environ, "COLUMNS": "200", **settings},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == code, ended.stderr
    assert said in ended.stdout + ended.stderr
