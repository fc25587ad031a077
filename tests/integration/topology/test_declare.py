"""Tests declaring the topology on a broker and removing it."""

import aio_pika
import pytest

from tests.integration.topology.conftest import Broker
from tests.pika import pika
from topology import plan
from topology.declare import apply, remove
from topology.errors import TopologyConflict, TopologyError
from topology.names import Names
from topology.plan import Plan, Queue
from topology.verify import verify

NAMES = Names()


async def objects(broker: Broker) -> set[str]:
    queues = (await broker.call("GET", "queues/VHOST")).json()
    exchanges = (await broker.call("GET", "exchanges/VHOST")).json()
    return {item["name"] for item in queues + exchanges if item["name"] and not item["name"].startswith("amq.")}


async def test_apply_is_idempotent_and_verifies_without_findings(broker: Broker) -> None:
    whole = plan.whole(NAMES, checked=["orders"], direct=["shop/mails"])

    await apply(pika(broker.connection), whole)
    await apply(pika(broker.connection), whole)

    report = await verify(pika(broker.connection), whole, management_url=broker.management_url)
    assert report.findings == ()
    assert report.ok


async def test_remove_deletes_every_object_and_is_idempotent(broker: Broker) -> None:
    small = plan.core(NAMES) + plan.slot(NAMES, "minutes", 30) + plan.topic(NAMES, "orders", direct=True)
    await apply(pika(broker.connection), small)
    assert "delay.000d-00h-30m" in await objects(broker)

    await remove(pika(broker.connection), small)
    assert await objects(broker) == set()

    await remove(pika(broker.connection), small)


async def test_single_binding_can_be_removed(broker: Broker) -> None:
    direct, checked = (plan.topic(NAMES, "orders", direct=answer) for answer in (True, False))
    await apply(pika(broker.connection), plan.core(NAMES) + direct)

    await remove(pika(broker.connection), Plan(bindings=tuple(set(direct.bindings) - set(checked.bindings))))

    report = await verify(pika(broker.connection), direct, management_url=broker.management_url)
    assert [finding.name for finding in report.findings] == ["binding delay.due --*.*.*.*.*.*.*.orders--> ready.orders"]


async def test_queue_with_another_ttl_is_a_conflict_that_names_both(broker: Broker) -> None:
    five = plan.slot(NAMES, "seconds", 5)
    await apply(pika(broker.connection), plan.core(NAMES) + five)
    other = Queue(name="delay.000d-00h-00m-05s", arguments={**five.queues[0].arguments, "x-message-ttl": 6000})

    with pytest.raises(TopologyConflict) as conflict:
        await apply(pika(broker.connection), Plan(queues=(other,)))

    raised = conflict.value
    assert (raised.name, raised.argument, raised.found, raised.required) == (
        "delay.000d-00h-00m-05s",
        "x-message-ttl",
        "5000",
        "6000",
    )


async def test_exchange_of_another_type_is_a_conflict(broker: Broker) -> None:
    async with broker.connection.channel() as channel:
        await channel.declare_exchange("delay.acks", aio_pika.ExchangeType.TOPIC, durable=True)

    with pytest.raises(TopologyConflict) as conflict:
        await apply(pika(broker.connection), plan.core(NAMES))

    raised = conflict.value
    assert (raised.name, raised.argument, raised.found, raised.required) == ("delay.acks", "type", "topic", "fanout")


async def test_queue_that_the_broker_refuses_is_an_error_and_no_conflict(broker: Broker) -> None:
    bad = Queue(name="bad", arguments={"x-queue-type": "quorum", "x-message-ttl": -1})

    with pytest.raises(TopologyError, match="the broker refuses bad") as refused:
        await apply(pika(broker.connection), Plan(queues=(bad,)))

    assert not isinstance(refused.value, TopologyConflict)


async def test_apply_on_a_robust_connection_leaves_no_channel_open(broker: Broker) -> None:
    async with await aio_pika.connect_robust(broker.amqp_url) as connection:
        await apply(pika(connection), plan.core(NAMES))
        await remove(pika(connection), plan.core(NAMES))
        transport = connection.transport
        assert transport is not None
        assert len(transport.connection.channels) <= 1  # channel 0 is the connection's own
