"""Tests `delaybridge topology …` against a broker, as an operator types it."""

import json

import pytest

from tests.command import run_command
from tests.integration.topology.conftest import Broker

pytestmark = pytest.mark.usefixtures("environment")


@pytest.fixture
def environment(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BRIDGE_AMQP_URL", broker.amqp_url)
    monkeypatch.setenv("BRIDGE_MANAGEMENT_URL", broker.management_url)


def run(*arguments: str, code: int = 0) -> str:
    result = run_command("topology", *arguments)
    assert result.exit_code == code, result.output
    return result.output


def test_apply_verify_and_drain_to_another_prefix_succeed() -> None:
    assert "error: exchange delay is missing" in run("verify", code=1)
    assert "15 exchanges, 188 queues" in run("--topic", "orders", "--direct", "mails", "apply")
    whole = run("--topic", "orders", "--direct", "mails", "verify", "--slots")
    assert whole.startswith("ok: checked version")
    assert "not checked" not in whole
    moved = run("drain", "--prefix=later", "--topic", "orders", "delay", "--direct", "mails")
    assert "0  messages moved; delay is deleted." in moved
    assert run("--prefix", "later", "--topic", "orders", "--direct", "mails", "verify").startswith("ok")
    assert "error: exchange delay is missing" in run("verify", code=1)


def test_lanes_are_declared_verified_and_removed() -> None:
    assert "35 exchanges, 542 queues" in run("--lanes", "3", "--topic", "orders", "apply")
    assert run("--lanes", "3", "--topic", "orders", "verify", "--slots").startswith("ok: checked version")
    assert "error: queue delay.lane3.checkpoint is missing" in run("--lanes", "4", "verify", code=1)
    assert "0  messages moved; delay has 1 of its lanes left." in run("--topic", "orders", "drain", "delay")
    assert json.loads(run("apply", "--json", "--no-slots"))["exchanges"] == 15
    verified = json.loads(run("verify", "--json"))
    assert (verified["ok"], verified["findings"]) == (True, [])
    run("--lanes=2", "apply", "--no-slots")
    assert json.loads(run("drain", "delay", "--json")) == {"moved": {}}
    assert "error: queue delay.lane1.checkpoint is missing" in run("--lanes", "3", "verify", code=1)
    assert run("--topic", "orders", "verify", "--slots").startswith("ok")
    in_part = run("verify")
    assert "not checked: slots; add --slots" in in_part
    assert "not checked: queues of topics; name each with --topic or --direct" in in_part


def test_show_and_export_need_no_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BRIDGE_AMQP_URL", "amqp://127.0.0.1:1/")
    assert "delay.000d-00h-30m" in run("show")
    assert len(json.loads(run("--topic", "orders", "export"))["queues"]) == 186
    assert "Connect call failed" in run("apply", code=1)


def test_drain_of_a_prefix_into_itself_is_refused() -> None:
    assert "is the present prefix" in run("drain", "delay", code=2)


def test_invalid_topic_is_a_usage_error() -> None:
    assert "is not a topic" in run("--topic", "a#", "show", code=2)
