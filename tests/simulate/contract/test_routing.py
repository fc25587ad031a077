"""What the wheel relies on when RabbitMQ routes a message (docs/topology.md, topology/plan.py)."""

from __future__ import annotations

from itertools import pairwise

import pytest
from pamqp.commands import Exchange, Queue

from tests.simulate.contract.client import Channel
from tests.simulate.contract.conftest import Node


async def _bodies(channel: Channel, queue: str) -> list[bytes]:
    """Takes all messages of a queue."""
    bodies = []
    while (message := await channel.get(queue)) is not None:
        bodies.append(message.body)
    return bodies


@pytest.mark.parametrize(
    ("pattern", "matching", "others"),
    [
        ("*.0.#", ["5.0", "5.0.orders", "5.0.a.b"], ["0", "5.1.orders", "5"]),
        ("*.*.#", ["1.2", "1.2.3"], ["1", ""]),
        ("orders", ["orders"], ["orders.eu", "order"]),
        ("#", ["", "a", "a.b"], []),
        ("a.#.z", ["a.z", "a.b.z", "a.b.c.z"], ["a", "a.z.b"]),
    ],
)
async def test_topic_exchange_compares_words(
    node: Node, channel: Channel, pattern: str, matching: list[str], others: list[str]
) -> None:
    await channel.declare_exchange(node.name("x"), "topic", durable=True)
    await channel.declare(node.name("q"))
    await channel.bind(node.name("q"), node.name("x"), pattern)

    for key in [*matching, *others]:
        await channel.publish(key, key.encode(), exchange=node.name("x"))

    assert await _bodies(channel, node.name("q")) == [key.encode() for key in matching]


async def test_alternate_exchange_gets_what_no_binding_matches(node: Node, channel: Channel) -> None:
    await channel.declare_exchange(node.name("rest"), "fanout", durable=True)
    await channel.declare_exchange(
        node.name("x"), "topic", durable=True, arguments={"alternate-exchange": node.name("rest")}
    )
    for queue, exchange, key in (("hit", "x", "1.#"), ("missed", "rest", "")):
        await channel.declare(node.name(queue))
        await channel.bind(node.name(queue), node.name(exchange), key)

    await channel.publish("1.a", b"hit", exchange=node.name("x"), mandatory=True)
    await channel.publish("2.a", b"missed", exchange=node.name("x"), mandatory=True)

    assert await _bodies(channel, node.name("hit")) == [b"hit"]
    assert await _bodies(channel, node.name("missed")) == [b"missed"]


async def test_binding_to_an_exchange_that_leads_nowhere_counts_as_a_match(node: Node, channel: Channel) -> None:
    """So each exchange of the wheel needs an alternate exchange of its own."""
    await channel.declare(node.name("missed"))
    for exchange in ("rest", "next"):
        await channel.declare_exchange(node.name(exchange), "topic", durable=True)
    await channel.bind(node.name("missed"), node.name("rest"), "#")
    await channel.declare_exchange(
        node.name("x"), "topic", durable=True, arguments={"alternate-exchange": node.name("rest")}
    )
    await channel.bind_exchange(node.name("next"), node.name("x"), "#")

    channel.write("a", exchange=node.name("x"), mandatory=True)

    assert (await channel.message()).key == "a"  # returned
    assert await _bodies(channel, node.name("missed")) == []


async def test_exchanges_lead_on_through_several_bindings(node: Node, channel: Channel) -> None:
    names = [node.name(f"x{at}") for at in range(4)]
    for name in names:
        await channel.declare_exchange(name, "topic", durable=True)
    for source, destination in pairwise(names):
        await channel.bind_exchange(destination, source, "0.#")
    await channel.bind_exchange(names[0], names[3], "#")  # a circle
    await channel.declare(node.name("q"))
    await channel.bind(node.name("q"), names[3], "#")

    await channel.publish("0.a", b"led on", exchange=names[0], mandatory=True)

    assert await _bodies(channel, node.name("q")) == [b"led on"]


async def test_queue_gets_one_copy_over_several_bindings(node: Node, channel: Channel) -> None:
    await channel.declare_exchange(node.name("x"), "topic", durable=True)
    await channel.declare(node.name("q"))
    for key in ("a", "#", "*"):
        await channel.bind(node.name("q"), node.name("x"), key)

    await channel.publish("a", b"once", exchange=node.name("x"))

    assert await _bodies(channel, node.name("q")) == [b"once"]


async def test_default_exchange_routes_by_the_name_of_the_queue(node: Node, channel: Channel) -> None:
    await channel.declare(node.name("q"))
    await channel.publish(node.name("q"), b"named", mandatory=True)

    found = await channel.get(node.name("q"))

    assert found is not None
    assert (found.exchange, found.key, found.body) == ("", node.name("q"), b"named")


async def test_headers_cc_and_bcc_route_further_copies(node: Node, channel: Channel) -> None:
    """So the bridge never publishes them."""
    for queue in ("to", "cc", "bcc"):
        await channel.declare(node.name(queue))

    await channel.publish(node.name("to"), headers={"CC": [node.name("cc")], "BCC": [node.name("bcc")]})

    for queue in ("to", "cc", "bcc"):
        found = await channel.get(node.name(queue))
        assert found is not None
        assert found.key == node.name("to")
        assert "CC" in found.headers
        assert "BCC" not in found.headers


async def test_headers_exchange_compares_headers(node: Node, channel: Channel) -> None:
    await channel.declare_exchange(node.name("x"), "headers", durable=True)
    await channel.declare(node.name("all"))
    await channel.declare(node.name("any"))
    for kind in ("all", "any"):
        await channel.bind(node.name(kind), node.name("x"), arguments={"x-match": kind, "a": 1, "b": "two"})

    await channel.publish("", b"both", exchange=node.name("x"), headers={"a": 1, "b": "two"})
    await channel.publish("", b"one", exchange=node.name("x"), headers={"a": 1})

    assert await _bodies(channel, node.name("all")) == [b"both"]
    assert await _bodies(channel, node.name("any")) == [b"both", b"one"]


async def test_publish_to_a_missing_exchange_closes_the_channel(node: Node, channel: Channel) -> None:
    channel.write("a", exchange=node.name("none"))

    closed = await channel.is_closed()

    assert (closed.code, closed.connection) == (404, False)
    assert f"NOT_FOUND - no exchange '{node.name('none')}' in vhost" in closed.text


async def test_deleted_exchange_takes_its_bindings_with_it(node: Node, channel: Channel) -> None:
    for exchange in ("first", "next"):
        await channel.declare_exchange(node.name(exchange), "fanout", durable=True)
    await channel.declare(node.name("q"))
    await channel.bind(node.name("q"), node.name("next"))
    await channel.bind_exchange(node.name("next"), node.name("first"))
    await channel.call(Exchange.Delete(exchange=node.name("next")), Exchange.DeleteOk)
    await channel.declare_exchange(node.name("next"), "fanout", durable=True)

    await channel.publish("", exchange=node.name("first"))
    await channel.publish("", exchange=node.name("next"))

    assert await _bodies(channel, node.name("q")) == []


async def test_unbound_queue_gets_nothing_more(node: Node, channel: Channel) -> None:
    await channel.declare_exchange(node.name("x"), "topic", durable=True)
    await channel.declare(node.name("q"))
    await channel.bind(node.name("q"), node.name("x"), "#")
    unbind = Queue.Unbind(queue=node.name("q"), exchange=node.name("x"), routing_key="#")
    await channel.call(unbind, Queue.UnbindOk)

    channel.write("a", exchange=node.name("x"), mandatory=True)

    assert (await channel.message()).key == "a"


async def test_internal_exchange_takes_no_publish(node: Node, channel: Channel) -> None:
    await channel.declare_exchange(node.name("x"), "fanout", durable=True, internal=True)

    channel.write("a", exchange=node.name("x"))

    assert (await channel.is_closed()).code == 403
