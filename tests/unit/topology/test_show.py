"""Tests the drawing of a plan and its export as a definitions file."""

import json

from topology import plan
from topology.definitions import export
from topology.names import Names
from topology.show import show

NAMES = Names()
SMALL = plan.core(NAMES) + plan.slot(NAMES, "minutes", 30) + plan.topic(NAMES, "orders", direct=True)


def test_drawing_shows_every_object() -> None:
    text = show(SMALL)

    names = [exchange.name for exchange in SMALL.exchanges] + [queue.name for queue in SMALL.every_queue]
    assert not [name for name in names if f"  {name} " not in text]
    for binding in SMALL.bindings:
        assert f"--{binding.key}-->" in text
    assert "delay.minutes  (topic, unbound keys go to delay.checkpoint)" in text
    assert "message-ttl=1800000" in text


def test_drawing_of_a_part_names_the_exchanges_it_needs() -> None:
    assert "  delay.minutes --*.*.*.*.30.#-->  queue delay.000d-00h-30m" in show(plan.slot(NAMES, "minutes", 30))


def test_definitions_file_has_every_object_once() -> None:
    exported = export(SMALL, "shop")

    assert {kind: len(items) for kind, items in exported.items()} == {
        "exchanges": len(SMALL.exchanges),
        "queues": len(SMALL.every_queue),
        "bindings": len(SMALL.bindings),
    }
    assert all(item["vhost"] == "shop" for items in exported.values() for item in items)
    assert next(item for item in exported["queues"] if item["name"] == "delay.000d-00h-30m") == {
        "name": "delay.000d-00h-30m",
        "vhost": "shop",
        "durable": True,
        "auto_delete": False,
        "arguments": {
            "x-queue-type": "quorum",
            "x-dead-letter-exchange": "delay.seconds",
            "x-dead-letter-strategy": "at-least-once",
            "x-overflow": "reject-publish",
            "x-message-ttl": 1_800_000,
        },
    }
    assert json.loads(json.dumps(exported)) == exported
