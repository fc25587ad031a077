"""What the topology relies on when it declares, looks up and deletes objects (topology/declare.py, channels.py)."""

from __future__ import annotations

import pytest
from pamqp import commands
from pamqp.commands import Exchange, Queue

from tests.simulate.contract.client import Channel, Client, Closed
from tests.simulate.contract.conftest import Node


async def test_declare_of_an_existing_queue_changes_nothing(node: Node, channel: Channel) -> None:
    name = node.name("q")
    await channel.declare(name, delivery_limit=5)
    await channel.publish(name)

    again = await channel.declare(name, delivery_limit=5)

    assert (again.message_count, again.consumer_count) == (1, 0)


async def test_declare_with_another_argument_is_refused_with_both_values(node: Node, channel: Channel) -> None:
    name = node.name("q")
    await channel.declare(name, message_ttl=1_000)

    with pytest.raises(Closed, match="PRECONDITION_FAILED") as refused:
        await channel.declare(name, message_ttl=2_000)

    assert refused.value.code == 406
    assert f"inequivalent arg 'x-message-ttl' for queue '{name}' in vhost" in refused.value.text
    assert refused.value.text.endswith("received '2000' but current is '1000'")


async def test_declare_without_an_argument_of_the_queue_is_refused(node: Node, channel: Channel) -> None:
    name = node.name("q")
    await channel.declare(name, delivery_limit=7)

    with pytest.raises(Closed, match="received none but current is the value '7' of type"):
        await channel.declare(name)


async def test_declare_of_an_exchange_with_another_type_is_refused(node: Node, channel: Channel) -> None:
    name = node.name("x")
    await channel.declare_exchange(name, "topic", durable=True)
    await channel.declare_exchange(name, "topic", durable=True)

    with pytest.raises(Closed, match="received 'fanout' but current is 'topic'"):
        await channel.declare_exchange(name, "fanout", durable=True)


async def test_look_at_a_missing_queue_closes_the_channel(node: Node, channel: Channel) -> None:
    with pytest.raises(Closed, match=f"NOT_FOUND - no queue '{node.name('none')}' in vhost") as refused:
        await channel.look(node.name("none"))

    assert (refused.value.code, refused.value.connection) == (404, False)


async def test_look_at_a_missing_exchange_closes_the_channel(node: Node, channel: Channel) -> None:
    with pytest.raises(Closed, match=f"NOT_FOUND - no exchange '{node.name('none')}' in vhost"):
        await channel.declare_exchange(node.name("none"), "topic", passive=True)


async def test_refused_declare_leaves_the_other_channels_open(node: Node) -> None:
    client = await node.client()
    one, other = await client.channel(), await client.channel()

    with pytest.raises(Closed):
        await one.look(node.name("none"))

    await other.declare(node.name("q"))
    assert (await client.channel(number=1)).number == 1


async def test_look_counts_ready_messages_and_consumers(node: Node, channel: Channel) -> None:
    name = node.name("q")
    await channel.declare(name)
    for _ in range(3):
        await channel.publish(name)
    consuming = await node.channel()
    await consuming.consume(name, prefetch=1)
    await consuming.message()

    looked = await channel.look(name)

    assert (looked.message_count, looked.consumer_count) == (2, 1)


async def test_delete_of_a_missing_queue_or_exchange_succeeds(node: Node, channel: Channel) -> None:
    assert (await channel.call(Queue.Delete(queue=node.name("none")), Queue.DeleteOk)).message_count == 0
    await channel.call(Exchange.Delete(exchange=node.name("none")), Exchange.DeleteOk)


async def test_delete_of_a_queue_drops_its_messages_and_bindings(node: Node, channel: Channel) -> None:
    name, exchange = node.name("q"), node.name("x")
    await channel.declare(name)
    await channel.declare_exchange(exchange, "fanout", durable=True)
    await channel.bind(name, exchange)
    await channel.publish(name)
    await channel.call(Queue.Delete(queue=name), Queue.DeleteOk)

    assert (await channel.declare(name)).message_count == 0
    await channel.publish("", exchange=exchange)
    assert await channel.get(name) is None


async def test_unbind_of_a_missing_binding_succeeds(node: Node, channel: Channel) -> None:
    name, exchange = node.name("q"), node.name("x")
    await channel.declare(name)
    await channel.declare_exchange(exchange, "topic", durable=True)

    await channel.call(Queue.Unbind(queue=name, exchange=exchange, routing_key="#"), Queue.UnbindOk)


async def test_bind_to_a_missing_exchange_is_refused(node: Node, channel: Channel) -> None:
    await channel.declare(node.name("q"))

    with pytest.raises(Closed, match=f"NOT_FOUND - no exchange '{node.name('none')}' in vhost"):
        await channel.bind(node.name("q"), node.name("none"))


@pytest.mark.parametrize("option", ["exclusive", "auto_delete", "transient"])
async def test_quorum_queue_is_durable_and_shared(node: Node, channel: Channel, option: str) -> None:
    method = Queue.Declare(
        queue=node.name("q"),
        durable=option != "transient",
        exclusive=option == "exclusive",
        auto_delete=option == "auto_delete",
        arguments={"x-queue-type": "quorum"},
    )

    with pytest.raises(Closed, match="PRECONDITION_FAILED - invalid property") as refused:
        await channel.call(method, Queue.DeclareOk)

    assert refused.value.code == 406


async def test_ttl_beyond_ten_years_is_refused(node: Node, channel: Channel) -> None:
    await channel.declare(node.name("longest"), message_ttl=315_360_000_000)

    with pytest.raises(Closed, match="PRECONDITION_FAILED - invalid arg 'x-message-ttl'"):
        await channel.declare(node.name("q"), message_ttl=315_360_000_001)


async def test_exclusive_queue_is_closed_to_other_connections_and_ends_with_its_own(node: Node) -> None:
    client, other = await node.client(), await node.client()
    channel, name = await client.channel(), node.name("own")
    await channel.call(Queue.Declare(queue=name, exclusive=True), Queue.DeclareOk)

    with pytest.raises(Closed, match="RESOURCE_LOCKED - cannot obtain exclusive access") as refused:
        await (await other.channel()).look(name)
    assert refused.value.code == 405

    client.write(b"")
    channel.send(commands.Channel.Close(200, "", 0, 0))
    await client.close()
    await _until_missing(other, name)


async def _until_missing(client: Client, queue: str) -> None:
    """Asks until the queue is gone: no event says when RabbitMQ has noticed the end of a connection."""
    number = 2
    while True:
        try:
            await (await client.channel(number=number)).look(queue)
        except Closed as closed:
            if closed.code == 404:
                return
        number += 1


async def test_broker_names_a_queue_without_a_name(node: Node, channel: Channel) -> None:
    answer = await channel.call(Queue.Declare(exclusive=True), Queue.DeclareOk)

    assert (answer.queue or "").startswith("amq.gen-")
    await channel.publish(answer.queue or "")


async def test_purge_drops_ready_messages_alone(node: Node, channel: Channel) -> None:
    name = node.name("q")
    await channel.declare(name)
    await channel.publish(name, b"held")
    held = await channel.get(name)
    await channel.publish(name, b"ready")

    assert (await channel.call(Queue.Purge(queue=name), Queue.PurgeOk)).message_count == 1

    assert held is not None
    channel.reject(held.tag, requeue=True)
    again = await node.channel()
    await again.consume(name)
    assert (await again.message()).body == b"held"
