"""Tests the wheel on a real broker: each message reaches its checkpoint, and none early."""

import time

import aio_pika
import pytest
from aio_pika.abc import AbstractIncomingMessage

from tests.integration.topology.conftest import Broker
from tests.pika import pika
from topology import plan
from topology.deaths import deaths, left_of_key_ms
from topology.declare import apply, remove
from topology.names import Names
from topology.wheel import route

NAMES = Names()


async def publish(broker: Broker, exchange: str, key: str) -> None:
    async with broker.connection.channel(on_return_raises=True) as channel:
        entry = await channel.get_exchange(exchange, ensure=False)
        message = aio_pika.Message(b"payload", delivery_mode=aio_pika.DeliveryMode.PERSISTENT)
        await entry.publish(message, key, mandatory=True, timeout=10)


async def take(broker: Broker, queue: str) -> AbstractIncomingMessage:
    """Waits for the next message of a queue and acknowledges it."""
    async with broker.connection.channel() as channel:
        await channel.set_qos(prefetch_count=1)
        source = await channel.get_queue(queue, ensure=False)
        async with source.iterator() as messages:
            async for message in messages:
                await message.ack()
                return message
    raise AssertionError("the consumer ended")


@pytest.mark.parametrize("delay_ms", [0, 200, 1_100])
async def test_message_reaches_the_checkpoint_when_its_delay_is_over(broker: Broker, delay_ms: int) -> None:
    taken = route(NAMES, delay_ms, "orders")
    await apply(
        pika(broker.connection), plan.merged((plan.core(NAMES), *(plan.slot(NAMES, *slot) for slot in taken.slots)))
    )

    began = time.monotonic()
    await publish(broker, taken.exchange, taken.routing_key)
    message = await take(broker, NAMES.checkpoint)

    assert time.monotonic() - began >= delay_ms / 1000
    assert (message.body, message.routing_key) == (b"payload", taken.routing_key)
    died = deaths(message.headers)
    assert [death.queue for death in died] == [NAMES.slot(*slot) for slot in reversed(taken.slots)]
    assert left_of_key_ms(NAMES, taken.routing_key, died) == 0


async def test_any_client_can_delay_a_message_by_its_key_alone(broker: Broker) -> None:
    await apply(
        pika(broker.connection),
        plan.core(NAMES) + plan.slot(NAMES, "tenths", 3) + plan.topic(NAMES, "orders", direct=True),
    )

    began = time.monotonic()
    await publish(broker, NAMES.entry, "0.0.0.0.0.0.3.orders")
    message = await take(broker, NAMES.ready_queue("orders"))

    assert time.monotonic() - began >= 0.3
    assert message.body == b"payload"


async def test_copy_with_a_kind_reaches_the_checkpoint_of_a_direct_topic(broker: Broker) -> None:
    await apply(pika(broker.connection), plan.core(NAMES) + plan.topic(NAMES, "orders", direct=True))
    taken = route(NAMES, 0, "orders", "lease")

    await publish(broker, taken.exchange, taken.routing_key)

    assert (await take(broker, NAMES.checkpoint)).routing_key == "0.0.0.0.0.0.0.!lease.orders"


async def test_message_with_a_missing_slot_falls_through_to_the_checkpoint(broker: Broker) -> None:
    taken = route(NAMES, 30 * 60_000 + 200, "orders")
    await apply(pika(broker.connection), plan.core(NAMES))

    await publish(broker, taken.exchange, taken.routing_key)

    message = await take(broker, NAMES.checkpoint)
    assert left_of_key_ms(NAMES, taken.routing_key, deaths(message.headers)) == 30 * 60_000 + 200


async def test_dead_letter_with_a_deleted_next_slot_falls_through(broker: Broker) -> None:
    taken = route(NAMES, 1_500, "orders")
    slots = [plan.slot(NAMES, *slot) for slot in taken.slots]
    await apply(pika(broker.connection), plan.merged((plan.core(NAMES), *slots)))
    await remove(pika(broker.connection), slots[1])

    await publish(broker, taken.exchange, taken.routing_key)

    message = await take(broker, NAMES.checkpoint)
    assert left_of_key_ms(NAMES, taken.routing_key, deaths(message.headers)) == 500


async def test_message_with_a_malformed_key_reaches_the_checkpoint_at_once(broker: Broker) -> None:
    await apply(pika(broker.connection), plan.core(NAMES))

    await publish(broker, NAMES.entry, "no.wheel.key")

    assert (await take(broker, NAMES.checkpoint)).routing_key == "no.wheel.key"


async def test_rejected_message_returns_to_the_checkpoint_with_its_topic(broker: Broker) -> None:
    await apply(pika(broker.connection), plan.core(NAMES) + plan.topic(NAMES, "orders"))
    await publish(broker, NAMES.ready_exchange, "orders")

    async with broker.connection.channel() as channel:
        ready = await channel.get_queue(NAMES.ready_queue("orders"), ensure=False)
        async with ready.iterator() as messages:
            async for message in messages:
                await message.reject(requeue=False)
                break

    returned = await take(broker, NAMES.checkpoint)
    assert returned.routing_key == "orders"
    assert [(death.queue, death.reason) for death in deaths(returned.headers)] == [("ready.orders", "rejected")]


@pytest.mark.parametrize("exchange", [NAMES.done, NAMES.acks])
async def test_acks_keep_their_topic(broker: Broker, exchange: str) -> None:
    await apply(pika(broker.connection), plan.core(NAMES))

    await publish(broker, exchange, "shop/orders")

    assert (await take(broker, NAMES.acks)).routing_key == "shop/orders"
