"""Tests what a definitions export says of old exchanges, and the steps that follow from it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from topology.migration.facts import Facts, OldExchange, read
from topology.migration.kept import FileUnreadable, KeptFile
from topology.migration.show import of_plugin, stage
from topology.migration.steps import Choices, Do, Held, Step, Unsettled, back, forward, refusal
from topology.names import Names

NAMES = Names()
DELAYED = "x-delayed-message"


def exchange(name: str, kind: str, vhost: str = "/", **arguments: Any) -> dict[str, Any]:
    return {
        "name": name,
        "vhost": vhost,
        "type": kind,
        "durable": True,
        "auto_delete": False,
        "internal": False,
        "arguments": arguments,
    }


def binding(source: str, destination: str, kind: str = "queue", vhost: str = "/") -> dict[str, Any]:
    return {
        "source": source,
        "vhost": vhost,
        "destination": destination,
        "destination_type": kind,
        "routing_key": "k",
        "arguments": {},
    }


EXPORT: dict[str, Any] = {
    "exchanges": [
        exchange("orders", DELAYED, **{"x-delayed-type": "topic"}),
        exchange("done", "fanout", **{"x-delayed-type": "fanout"}),
        exchange("delay.in.done", "topic"),
        exchange("first", "topic", **{"alternate-exchange": "orders"}),
        exchange("logs", "topic"),
        exchange("far", DELAYED, "other", **{"x-delayed-type": "direct"}),
    ],
    "queues": [
        {"name": "delay.in", "vhost": "/", "arguments": {}},
        {"name": "retry", "vhost": "/", "arguments": {"x-dead-letter-exchange": "orders"}},
    ],
    "bindings": [
        binding("orders", "mine"),
        binding("orders", "logs", "exchange"),
        binding("logs", "orders", "exchange"),
        binding("logs", "orders"),  # a queue with the name of the exchange
        binding("orders", "elsewhere", vhost="other"),
        binding("delay.in.done", "delay.in"),
    ],
    "policies": [
        {
            "name": "all",
            "vhost": "/",
            "pattern": ".*",
            "apply-to": "exchanges",
            "definition": {"federation-upstream": "x"},
        },
        {"name": "queues", "vhost": "/", "pattern": ".*", "apply-to": "queues", "definition": {"max-length": 1}},
        {
            "name": "no",
            "vhost": "/",
            "pattern": "^logs$",
            "apply-to": "all",
            "definition": {"alternate-exchange": "logs"},
        },
    ],
    "permissions": [
        {"user": "wide", "vhost": "/", "write": ".*"},
        {"user": "narrow", "vhost": "/", "write": "^orders$"},
        {"user": "none", "vhost": "/", "write": ""},
        {"user": "far", "vhost": "other", "write": "^orders$"},
    ],
}


def test_export_of_the_broker_is_read() -> None:
    facts = read(EXPORT, NAMES, "/")
    done, orders = facts.exchanges
    assert (done.name, done.kind, done.has_ingress, done.plain_type) == ("done", "fanout", True, "fanout")
    assert (orders.name, orders.kind, orders.has_ingress, orders.plain_type) == ("orders", DELAYED, False, "topic")
    assert [(one["source"], one["destination"]) for one in orders.bindings] == [
        ("orders", "mine"),
        ("orders", "logs"),
        ("logs", "orders"),
    ]
    assert orders.users == ["narrow"]
    assert orders.policies == ("all (federation-upstream)",)
    assert orders.feeders == (
        "the exchange logs, by a binding",
        "the exchange first, as its alternate exchange",
        "the queue retry, which dead-letters to it",
    )
    assert (facts.has_queue, facts.plugin_is_on, facts.elsewhere) == (True, None, ["other"])
    assert [one.name for one in read(EXPORT, NAMES, "other").exchanges] == ["far"]


def test_export_of_one_virtual_host_names_none() -> None:
    rows = [{key: value for key, value in EXPORT["exchanges"][0].items() if key != "vhost"}]
    facts = read({"exchanges": rows, "queues": [], "bindings": [], "policies": []}, NAMES, "any")
    assert [one.name for one in facts.exchanges] == ["orders"]
    assert not facts.has_queue


@pytest.mark.parametrize("other", [{}, {"exchanges": "no list"}])
def test_other_json_is_refused(other: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="no definitions export"):
        read(other, NAMES, "/")


def test_exchange_that_is_not_of_the_plugin_is_refused() -> None:
    with pytest.raises(ValueError, match="no exchange 'logs' of type x-delayed-message"):
        read(EXPORT, NAMES, "/", wanted=["logs"])


ORDERS = read(EXPORT, NAMES, "/", wanted=["orders"]).exchanges[0]
NEW = replace(ORDERS, held=0)
READY = replace(NEW, has_ingress=True)
PLAIN = replace(READY, kind="topic", held=None)
GONE = replace(READY, kind=None)


def facts(exchange: OldExchange | None, *, on: bool | None = True, queue: bool = True) -> Facts:
    present = () if exchange is None or exchange.kind is None else (exchange,)
    return Facts(vhost="/", exchanges=present, has_queue=queue, plugin_is_on=on)


def state(steps: tuple[Step, ...]) -> str:
    """One letter for each step: done, next, waits."""
    return "".join("d" if step.is_done else "w" if step.waits_for else "n" for step in steps)


@pytest.mark.parametrize(
    ("exchange", "on", "queue", "moved", "held", "expected"),
    [
        (NEW, True, True, False, "wait", "nwdw"),
        (NEW, True, False, True, "wait", "wddw"),
        (NEW, True, True, True, "wait", "nddn"),
        (READY, True, True, False, "wait", "dwdw"),
        (READY, True, True, True, "wait", "dddn"),
        (replace(READY, held=7), True, True, True, "wait", "ddww"),
        (replace(READY, held=7), True, True, True, "deliver", "dddn"),
        (replace(READY, elsewhere=["rabbit@b"]), True, True, True, "wait", "ddww"),
        (replace(READY, elsewhere=["rabbit@b"]), True, True, True, "none", "dddn"),
        (replace(READY, elsewhere=["rabbit@b"]), True, True, True, "deliver", "dddn"),
        (replace(READY, held=7), True, True, True, "none", "ddww"),
        (replace(READY, held=None), True, True, True, "wait", "ddww"),
        (replace(READY, held=None), None, True, True, "wait", "ddww"),
        (replace(READY, held=None), False, True, True, "wait", "ddww"),
        (replace(READY, held=None), False, True, True, "deliver", "ddww"),
        (replace(READY, held=None), False, True, True, "lose", "dddn"),
        (PLAIN, True, True, False, "wait", "ddd"),
        (PLAIN, False, True, False, "wait", "ddd"),
        (replace(PLAIN, has_ingress=False), True, True, False, "wait", "ndd"),
    ],
)
def test_steps_forward_follow_from_the_facts(
    exchange: OldExchange, *, on: bool | None, queue: bool, moved: bool, held: Held, expected: str
) -> None:
    choices = Choices(publishers_moved=moved, held=held)
    assert state(forward(facts(exchange, on=on, queue=queue), NAMES, choices)) == expected


@pytest.mark.parametrize(
    ("exchange", "on", "gone_back", "expected"),
    [
        (PLAIN, True, False, "nww"),
        (PLAIN, True, True, "ndn"),
        (PLAIN, False, True, "wdn"),
        (READY, True, False, "dww"),
        (READY, True, True, "ddn"),
        (NEW, True, False, "ddd"),
    ],
)
def test_steps_back_follow_from_the_facts(exchange: OldExchange, on: bool, gone_back: bool, expected: str) -> None:
    assert state(back(facts(exchange, on=on), NAMES, Choices(publishers_back=gone_back))) == expected


@pytest.mark.parametrize("present", [None, READY, PLAIN])
@pytest.mark.parametrize("towards", ["topic", DELAYED])
def test_interrupted_replacement_is_done_again(present: OldExchange | None, towards: str) -> None:
    begun = {"orders": Unsettled(exchange=GONE, towards=towards)}
    (declared,) = [step for step in forward(facts(present), NAMES, Choices(), begun) if step.do == Do.MAKE_PLAIN]
    assert (declared.is_done, declared.waits_for) == (False, "")
    (restored,) = [step for step in back(facts(present), NAMES, Choices(), begun) if step.do == Do.MAKE_DELAYED]
    assert (restored.is_done, restored.waits_for) == (False, "")
    assert stage(present or GONE, begun, NAMES) == "interrupted: run the last command again"


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"definition": exchange("orders", DELAYED)}, "no argument x-delayed-type"),
        ({"definition": {**NEW.definition, "internal": True}}, "it is internal"),
        ({"name": "o" * 119}, "has 128 bytes"),
    ],
)
def test_exchange_that_can_not_be_migrated_says_why(changed: dict[str, Any], reason: str) -> None:
    refused = replace(NEW, **changed)
    assert reason in refusal(refused, NAMES)
    steps = forward(facts(refused), NAMES, Choices(publishers_moved=True))
    assert not any(step.do != Do.LOOK and not step.waits_for for step in steps)


@pytest.mark.parametrize(
    ("found", "held", "said"),
    [
        (facts(PLAIN, on=None), {}, "unknown"),
        (facts(PLAIN, on=False), {}, "off"),
        (facts(READY), {}, "Never switch it off"),
        (replace(facts(PLAIN), elsewhere=["other"]), {}, "needed by the virtual hosts other"),
        (facts(PLAIN), {"orders": 20}, "orders 20 when they were replaced"),
        (facts(PLAIN), {"orders": None}, "orders ? when they were replaced"),
        (facts(PLAIN), {}, "no longer needed"),
    ],
)
def test_plugin_is_needed_as_long_as_it_holds_anything(found: Facts, held: dict[str, int | None], said: str) -> None:
    assert said in of_plugin(found, {}, held)


def test_file_keeps_what_is_needed_until_the_end(tmp_path: Path) -> None:
    file = KeptFile(tmp_path / "kept.json")
    assert file.read("/").begun == {}
    file.begin("/", READY, "topic")
    file.begin("other", READY, "topic")
    kept = KeptFile(file.path).read("/").begun["orders"]
    assert (kept.towards, kept.exchange) == (
        "topic",
        replace(GONE, users=(), feeders=(), policies=()),
    )
    file.end("/", "orders", 20)
    assert (file.read("/").begun, file.read("/").held) == ({}, {"orders": 20})
    file.end("/", "orders")
    assert list(json.loads(file.path.read_text())["vhosts"]) == ["other"]


@pytest.mark.parametrize("text", ["", "[]", '{"version": 2}', '{"version": 1, "vhosts": {"/": {"begun": {"a": {}}}}}'])
def test_other_file_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "kept.json"
    file.write_text(text)
    with pytest.raises(FileUnreadable, match=r"kept\.json"):
        KeptFile(file).read("/")
