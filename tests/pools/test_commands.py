"""Tests the option `--pool` of the commands."""

from __future__ import annotations

import json

import pytest

from bridge.local.redis import RedisNode
from tests.command import run_command

EU = {"amqp_url": "amqp://u:s3cret@eu:5672/", "redis_url": "redis://:s3cret@eu:6379/0", "prefix": "eu"}


@pytest.fixture(autouse=True)
def pools(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BRIDGE_POOLS", json.dumps({"eu": {**EU, "namespaces": ["shop", "uk"]}}))


def test_topology_shows_a_pools_names() -> None:
    shown = run_command("topology", "--pool", "eu", "--topic", "shop/orders", "show", "--no-slots")
    assert shown.exit_code == 0
    assert "eu-ready.shop/orders" in shown.output
    assert "delay.checkpoint" not in shown.output


@pytest.mark.parametrize("command", [["topology", "--pool", "us", "show"], ["audit", "--pool", "us"]])
def test_an_unknown_pool_is_refused_with_the_known_ones(command: list[str]) -> None:
    refused = run_command(*command, settings={"COLUMNS": "200"})
    assert refused.exit_code == 2
    assert "there is no pool 'us'; the pools are default, eu" in refused.output


def test_an_audit_of_a_pool_uses_its_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    nobody = {**EU, "amqp_url": "amqp://u:s3cret@127.0.0.1:1/", "redis_url": "redis://:s3cret@127.0.0.1:1/0"}
    monkeypatch.setenv("BRIDGE_POOLS", json.dumps({"eu": nobody}))
    away = run_command("audit", "--pool", "eu")
    assert (away.exit_code, "s3cret" in away.output) == (1, False)
    assert "delaybridge audit: " in away.output


def test_a_token_created_for_a_pool_allows_its_namespaces(
    redis_node: RedisNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BRIDGE_REDIS_URL", redis_node.url)
    monkeypatch.setenv("BRIDGE_REDIS_PREFIX", "commands-of-pools")
    made = run_command("token", "create", "shop", "--scope", "send", "--pool", "eu", "--json")
    assert made.exit_code == 0, made.output
    assert json.loads(made.stdout)["namespaces"] == ["shop", "uk"]
