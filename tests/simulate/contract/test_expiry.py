"""What slots and ready queues rely on: TTLs, and dead letters (docs/topology.md, /docs/dlx of RabbitMQ)."""

from __future__ import annotations

from time import time
from typing import Any

import pytest
from pamqp.commands import Queue

from tests.simulate.contract.client import Channel, Closed
from tests.simulate.contract.conftest import Node

SHORT_MS, LONG_MS = 80, 60_000
AT_LEAST_ONCE = {"dead_letter_strategy": "at-least-once", "overflow": "reject-publish"}


@pytest.fixture(params=["at-most-once", "at-least-once"])
def strategy(request: pytest.FixtureRequest) -> dict[str, str]:
    return AT_LEAST_ONCE if request.param == "at-least-once" else {}


async def _slot(node: Node, channel: Channel, name: str, to: str, **arguments: Any) -> None:
    """Declares a queue whose dead letters go to the queue `to`."""
    arguments = {"dead_letter_exchange": "", "dead_letter_routing_key": node.name(to), **arguments}
    await channel.declare(node.name(name), **arguments)


async def _due(node: Node, queue: str = "due") -> Channel:
    """Declares a queue and consumes it, on a channel of its own."""
    channel = await node.channel()
    await channel.declare(node.name(queue))
    await channel.consume(node.name(queue))
    return channel


async def test_message_expires_at_the_head_only(node: Node, channel: Channel) -> None:
    due = await _due(node)
    await _slot(node, channel, "slot", "due")
    await channel.publish(node.name("slot"), b"first", expiration=str(4 * SHORT_MS))
    await channel.publish(node.name("slot"), b"second", expiration="1")

    first, second = await due.messages(2)

    assert [first.body, second.body] == [b"first", b"second"]


async def test_dead_letter_keeps_its_properties_and_gets_x_death(
    node: Node, channel: Channel, strategy: dict[str, str]
) -> None:
    due = await _due(node)
    await channel.declare_exchange(node.name("x"), "topic", durable=True)
    await _slot(node, channel, "slot", "due", message_ttl=SHORT_MS, **strategy)
    await channel.bind(node.name("slot"), node.name("x"), "#")
    sent = {"message_id": "m", "content_type": "t", "headers": {"a": 1, "b": "two"}}
    await channel.publish("5.orders", b"body", exchange=node.name("x"), **sent)

    found = await due.message()

    assert (found.body, found.properties.message_id, found.properties.content_type) == (b"body", "m", "t")
    assert (found.exchange, found.key) == ("", node.name("due"))
    assert (found.headers["a"], found.headers["b"]) == (1, "two")
    (death,) = found.deaths
    assert abs(death.pop("time").timestamp() - time()) < 60  # whole seconds of the broker's clock
    assert death == {
        "count": 1,
        "reason": "expired",
        "queue": node.name("slot"),
        "exchange": node.name("x"),
        "routing-keys": ["5.orders"],
    }
    for which in ("first", *(["last"] if node.rules.last_death else [])):
        assert found.headers[f"x-{which}-death-queue"] == node.name("slot")
        assert found.headers[f"x-{which}-death-reason"] == "expired"
        assert found.headers[f"x-{which}-death-exchange"] == node.name("x")
    assert ("x-last-death-queue" in found.headers) == node.rules.last_death
    assert not found.redelivered


async def test_dead_letter_keeps_its_key_without_another_one(
    node: Node, channel: Channel, strategy: dict[str, str]
) -> None:
    """So the key leads the rest of the way through the wheel."""
    due = await _due(node)
    await channel.declare_exchange(node.name("next"), "topic", durable=True)
    await channel.bind(node.name("due"), node.name("next"), "*.orders")
    await channel.declare(node.name("slot"), message_ttl=SHORT_MS, dead_letter_exchange=node.name("next"), **strategy)
    await channel.declare_exchange(node.name("x"), "topic", durable=True)
    await channel.bind(node.name("slot"), node.name("x"), "#")
    await channel.publish("5.orders", exchange=node.name("x"))

    found = await due.message()

    assert (found.exchange, found.key) == (node.name("next"), "5.orders")


async def test_deaths_are_listed_from_the_latest_on(node: Node, channel: Channel, strategy: dict[str, str]) -> None:
    due = await _due(node)
    await _slot(node, channel, "fast", "due", message_ttl=SHORT_MS, **strategy)
    await _slot(node, channel, "slow", "fast", message_ttl=SHORT_MS, **strategy)
    await channel.publish(node.name("slow"))

    found = await due.message()

    assert [death["queue"] for death in found.deaths] == [node.name("fast"), node.name("slow")]
    assert found.headers["x-first-death-queue"] == node.name("slow")


async def test_own_expiration_ends_a_wait_early_and_is_removed(node: Node, channel: Channel) -> None:
    due = await _due(node)
    await _slot(node, channel, "slot", "due", message_ttl=LONG_MS)
    await channel.publish(node.name("slot"), expiration=str(SHORT_MS))

    found = await due.message()

    assert found.properties.expiration is None
    assert found.deaths[0]["original-expiration"] == str(SHORT_MS)


async def test_ttl_of_the_queue_ends_a_longer_expiration(node: Node, channel: Channel) -> None:
    due = await _due(node)
    await _slot(node, channel, "slot", "due", message_ttl=SHORT_MS)
    await channel.publish(node.name("slot"), expiration=str(LONG_MS))

    assert (await due.message()).deaths[0]["original-expiration"] == str(LONG_MS)


async def test_dead_letters_keep_their_order(node: Node, channel: Channel, strategy: dict[str, str]) -> None:
    due = await _due(node)
    await _slot(node, channel, "slot", "due", message_ttl=SHORT_MS, **strategy)
    for at in range(50):
        channel.write(node.name("slot"), str(at).encode())

    assert [message.body for message in await due.messages(50)] == [str(at).encode() for at in range(50)]


async def test_each_priority_expires_at_its_own_head_on_4_3(node: Node, channel: Channel) -> None:
    """docs/versions.md: 3.10 has one level for all. On 4.0 a message of the lower level waits too long."""
    due = await _due(node)
    await _slot(node, channel, "slot", "due", message_ttl=LONG_MS)
    await channel.publish(node.name("slot"), b"urgent", priority=9)
    await channel.publish(node.name("slot"), b"ordinary", priority=1, expiration=str(SHORT_MS))
    if node.rules.levels_expire_apart:
        assert (await due.message()).body == b"ordinary"
    else:
        await _slot(node, channel, "later", "due", message_ttl=3 * SHORT_MS)
        await channel.publish(node.name("later"), b"later")
        assert (await due.message()).body == b"later"


async def test_unacknowledged_delivery_expires_after_it_is_requeued(node: Node, channel: Channel) -> None:
    due, consuming = await _due(node), await node.channel()
    await _slot(node, channel, "slot", "due", message_ttl=SHORT_MS)
    await _slot(node, channel, "timer", "due", message_ttl=2 * SHORT_MS)
    tag = await consuming.consume(node.name("slot"))
    await channel.publish(node.name("slot"), b"held")
    held = await consuming.message()
    await consuming.cancel(tag)
    await channel.publish(node.name("timer"), b"timer")

    assert (await due.message()).body == b"timer"
    consuming.nack(held.tag, requeue=True)
    assert (await due.message()).body == b"held"


async def test_message_that_may_not_wait_reaches_a_consumer_alone(node: Node, channel: Channel) -> None:
    """The markers of `delaybridge topology drain` (topology/mover.py)."""
    due = await _due(node)
    await _slot(node, channel, "slot", "due")
    await channel.publish(node.name("slot"), b"too early", expiration="0")
    assert (await due.message()).body == b"too early"

    consuming = await node.channel()
    await consuming.consume(node.name("slot"))
    await channel.publish(node.name("slot"), b"in time", expiration="0")

    assert (await consuming.message()).body == b"in time"


async def test_rejected_message_dies(node: Node, channel: Channel, strategy: dict[str, str]) -> None:
    due = await _due(node)
    await _slot(node, channel, "ready", "due", **strategy)
    await channel.publish(node.name("ready"), b"unwanted")
    found = await channel.get(node.name("ready"))
    assert found is not None
    channel.reject(found.tag, requeue=False)

    letter = await due.message()

    assert (letter.body, letter.deaths[0]["reason"]) == (b"unwanted", "rejected")


async def test_dead_letter_key_replaces_all_keys(node: Node, channel: Channel) -> None:
    due = await _due(node)
    await _slot(node, channel, "slot", "due", message_ttl=SHORT_MS)
    await channel.declare(node.name("cc"))
    await channel.publish(node.name("slot"), headers={"CC": [node.name("cc")]})

    letter = await due.message()

    assert ("CC" not in letter.headers) == node.rules.drops_cc
    assert letter.deaths[0]["routing-keys"] == [node.name("slot"), node.name("cc")]
    assert (await channel.look(node.name("cc"))).message_count == 1


async def test_dead_letter_takes_its_cc_keys_along(node: Node, channel: Channel, strategy: dict[str, str]) -> None:
    """A header CC of a producer routes past the delay at once, and once more at the end of the slot."""
    due, copies = await _due(node), await _due(node, "copies")
    await channel.declare_exchange(node.name("x"), "direct", durable=True)
    await channel.declare_exchange(node.name("next"), "direct", durable=True)
    await channel.declare(node.name("slot"), message_ttl=SHORT_MS, dead_letter_exchange=node.name("next"), **strategy)
    for exchange, queue, key in (("x", "slot", "key"), ("next", "due", "key"), ("next", "copies", "cc")):
        await channel.bind(node.name(queue), node.name(exchange), key)
    await channel.publish("key", exchange=node.name("x"), headers={"CC": ["cc"]})

    assert (await due.message()).deaths[0]["routing-keys"] == ["key", "cc"]
    assert (await copies.message()).key == "key"


async def test_unused_queue_ends_with_its_messages(node: Node, channel: Channel) -> None:
    """`x-expires`: so the topology never sets it. A quorum queue does so too, but looks only with each tick."""
    due = await _due(node)
    await channel.declare(node.name("brief"), queue_type="classic", expires=SHORT_MS)
    await channel.publish(node.name("brief"))
    await _slot(node, channel, "timer", "due", message_ttl=6 * SHORT_MS)
    await channel.publish(node.name("timer"))
    await due.message()

    with pytest.raises(Closed, match="NOT_FOUND - no queue"):
        await channel.look(node.name("brief"))


async def test_dead_letters_of_a_deleted_queue_take_the_alternate_exchange(node: Node, channel: Channel) -> None:
    """docs/topology.md: a message whose next slot is missing reaches the checkpoint early."""
    due = await _due(node)
    await channel.declare_exchange(node.name("rest"), "fanout", durable=True)
    await channel.bind(node.name("due"), node.name("rest"))
    alternate = {"alternate-exchange": node.name("rest")}
    await channel.declare_exchange(node.name("next"), "topic", durable=True, arguments=alternate)
    await channel.declare(node.name("target"))
    await channel.bind(node.name("target"), node.name("next"), "#")
    await channel.declare(
        node.name("slot"), message_ttl=SHORT_MS, dead_letter_exchange=node.name("next"), **AT_LEAST_ONCE
    )
    await channel.publish(node.name("slot"), b"orphan")
    await channel.call(Queue.Delete(queue=node.name("target")), Queue.DeleteOk)

    assert (await due.message()).body == b"orphan"


async def test_unroutable_dead_letter_waits_at_least_once(node: Node, channel: Channel) -> None:
    """RabbitMQ tries it again after 5 s here, and after 180 s by default. At most once, it would be lost."""
    await channel.declare_exchange(node.name("next"), "topic", durable=True)
    await channel.declare(
        node.name("slot"), message_ttl=SHORT_MS, dead_letter_exchange=node.name("next"), **AT_LEAST_ONCE
    )
    await channel.publish(node.name("slot"), b"stuck")
    timer = await _due(node, "timer")
    await _slot(node, channel, "later", "timer", message_ttl=3 * SHORT_MS)
    await channel.publish(node.name("later"))
    await timer.message()
    assert (await channel.look(node.name("slot"))).message_count == 0  # it is no ready message any more

    due = await _due(node)
    await channel.bind(node.name("due"), node.name("next"), "#")

    assert (await due.message()).body == b"stuck"


async def test_message_that_expires_in_a_circle_is_dropped(node: Node, channel: Channel) -> None:
    """So the wheel strictly descends."""
    await channel.declare(node.name("slot"), message_ttl=SHORT_MS, dead_letter_exchange="")
    await channel.publish(node.name("slot"), b"circle")
    due = await _due(node)
    await _slot(node, channel, "timer", "due", message_ttl=4 * SHORT_MS)
    await channel.publish(node.name("timer"), b"timer")

    assert (await due.message()).body == b"timer"
    assert (await channel.look(node.name("slot"))).message_count == 0


async def test_reject_breaks_a_circle_and_counts_its_deaths(node: Node, channel: Channel) -> None:
    await channel.declare(node.name("q"), dead_letter_exchange="")
    await channel.publish(node.name("q"), b"again")
    await channel.consume(node.name("q"))

    for _ in range(3):
        channel.reject((await channel.message()).tag, requeue=False)

    last = await channel.message()
    assert [(death["reason"], death["count"]) for death in last.deaths] == [("rejected", 3)]


async def test_deaths_of_a_client_are_believed_by_old_versions_alone(node: Node, channel: Channel) -> None:
    """docs/versions.md: such a message may be dropped as a cycle."""
    due = await _due(node)
    await _slot(node, channel, "slot", "due", message_ttl=SHORT_MS)
    forged = [{"queue": node.name("due"), "reason": "expired", "count": 1, "exchange": "", "routing-keys": ["a"]}]
    await channel.publish(node.name("slot"), b"forged", headers={"x-death": forged})
    await _slot(node, channel, "later", "due", message_ttl=3 * SHORT_MS)
    await channel.publish(node.name("later"), b"later")

    expected = b"later" if node.rules.believes_deaths else b"forged"
    assert (await due.message()).body == expected


async def test_dead_letter_without_an_exchange_is_dropped(node: Node, channel: Channel) -> None:
    due = await _due(node)
    await channel.declare(node.name("slot"), message_ttl=SHORT_MS, dead_letter_exchange=node.name("none"))
    await _slot(node, channel, "later", "due", message_ttl=3 * SHORT_MS)
    await channel.publish(node.name("slot"), b"dropped")
    await channel.publish(node.name("later"), b"later")

    assert (await due.message()).body == b"later"
    assert (await channel.look(node.name("slot"))).message_count == 0


async def test_classic_queue_expires_as_a_quorum_queue_does(node: Node, channel: Channel) -> None:
    due = await _due(node)
    await _slot(node, channel, "slot", "due", message_ttl=SHORT_MS, queue_type="classic")
    await channel.publish(node.name("slot"), b"classic")

    assert [(death["queue"], death["reason"]) for death in (await due.message()).deaths] == [
        (node.name("slot"), "expired")
    ]
