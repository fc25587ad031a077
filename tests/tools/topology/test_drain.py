"""Tests moving to a new prefix: no message is lost or early, and no old object is left."""

import asyncio
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import aio_pika
import pytest
from aio_pika.abc import AbstractIncomingMessage
from pamqp.commands import Basic

from tests.integration.topology.conftest import Broker
from tests.pika import pika
from tests.waiting import pause
from topology import plan
from topology.channels import with_lanes_found
from topology.deaths import deaths
from topology.declare import apply
from topology.drain import drain
from topology.errors import TopologyBarred, TopologyError
from topology.former import FormerNames
from topology.mover import MARKER
from topology.names import Names
from topology.verify import verify
from topology.wheel import HOUR_MS, route

OLD = Names()
NEW = Names(prefix="delay2")


async def publish(
    broker: Broker, exchange: str, key: str, body: bytes, headers: Mapping[str, Any] | None = None, **properties: Any
) -> None:
    async with broker.connection.channel(on_return_raises=True) as channel:
        entry = await channel.get_exchange(exchange, ensure=False) if exchange else channel.default_exchange
        message = aio_pika.Message(body, headers=dict(headers or {}), **properties)
        await entry.publish(message, key, mandatory=True, timeout=10)


async def take(broker: Broker, queue: str, count: int) -> list[AbstractIncomingMessage]:
    """Waits for the next messages of a queue and acknowledges them."""
    taken = []
    async with broker.connection.channel() as channel:
        source = await channel.get_queue(queue, ensure=False)
        async with source.iterator() as messages:
            async for message in messages:
                await message.ack()
                taken.append(message)
                if len(taken) == count:
                    break
    return taken


async def names_on(broker: Broker) -> set[str]:
    found = [*(await broker.call("GET", "queues/VHOST")).json(), *(await broker.call("GET", "exchanges/VHOST")).json()]
    return {item["name"] for item in found}


async def test_waiting_message_moves_with_its_remaining_delay(broker: Broker) -> None:
    await apply(pika(broker.connection), plan.whole(OLD, checked=["orders"]))
    hours = route(OLD, 5 * HOUR_MS + 200, "orders", "retry")
    await publish(broker, hours.exchange, hours.routing_key, b"by key", message_id="m1", content_type="text/plain")
    in_a_minute_ms = time.time_ns() // 1_000_000 + 60_000
    await publish(
        broker,
        hours.exchange,
        hours.routing_key,
        b"by header",
        {"x-delay-due": in_a_minute_ms, "CC": []},
        expiration=7200,
    )

    drained = await drain(pika(broker.connection), OLD, NEW, timeout_s=60)

    assert drained.moved == {"delay.000d-05h": 2}
    [by_key] = await take(broker, "delay2.000d-05h", 1)
    assert by_key.routing_key == "0.0.0.5.0.0.2.!retry.orders"
    assert (by_key.body, by_key.message_id, by_key.content_type) == (b"by key", "m1", "text/plain")
    left = await _only_waiting(broker)
    [by_header] = await take(broker, left, 1)
    assert (by_header.body, by_header.expiration) == (b"by header", None)
    assert (by_header.headers, by_header.delivery_mode) == ({"x-delay-due": in_a_minute_ms}, 2)


async def _only_waiting(broker: Broker) -> str:
    """The queue of the new wheel that has a message."""
    existing = await names_on(broker)
    async with broker.connection.channel() as channel:
        for queue in plan.slots(NEW).queues:
            if queue.name in existing:
                declared = await channel.declare_queue(queue.name, passive=True)
                if declared.declaration_result.message_count:
                    return queue.name
    raise AssertionError("no queue of the new wheel has a message")


async def test_message_in_a_slot_of_an_earlier_version_moves_to_the_present_slot(broker: Broker) -> None:
    await apply(pika(broker.connection), replace(plan.whole(FormerNames.of(OLD), checked=["orders"]), barring=()))
    taken = route(OLD, 5 * HOUR_MS + 200, "orders")
    await publish(broker, taken.exchange, taken.routing_key, b"waits")
    with pytest.raises(TopologyBarred, match=r"the queue delay\.900ms of an earlier version exists"):
        await apply(pika(broker.connection), plan.whole(OLD))

    drained = await drain(pika(broker.connection), OLD, NEW, topics=["orders"], timeout_s=60)

    assert drained.moved == {"delay.5h": 1}
    [moved] = await take(broker, "delay2.000d-05h", 1)
    assert (moved.body, moved.routing_key) == (b"waits", taken.routing_key)
    await _assert_nothing_old(broker)
    await apply(pika(broker.connection), plan.core(OLD))


async def test_messages_in_flight_during_a_drain_arrive_once_and_not_early(broker: Broker) -> None:
    await apply(pika(broker.connection), plan.whole(OLD))
    count = 300
    published_at = {}
    for number in range(count):
        taken = route(OLD, 100 * (number % 23), "orders")
        published_at[str(number).encode()] = (time.time(), 100 * (number % 23))
        await publish(broker, taken.exchange, taken.routing_key, str(number).encode())

    async with asyncio.TaskGroup() as group:
        arrived = group.create_task(_arrival_times(broker, NEW.checkpoint, count))
        drained = group.create_task(drain(pika(broker.connection), OLD, NEW, timeout_s=60))

    assert sorted(arrived.result()) == sorted(published_at)
    assert sum(drained.result().moved.values()) >= count
    for body, at in arrived.result().items():
        began, delay_ms = published_at[body]
        assert at - began >= delay_ms / 1000
    await _assert_nothing_old(broker)


async def test_drain_moves_every_message_of_a_long_queue(broker: Broker) -> None:
    await apply(pika(broker.connection), plan.core(OLD) + plan.slot(OLD, "hours", 5))
    bodies = [str(number).encode() for number in range(1_000)]
    async with broker.connection.channel(on_return_raises=True) as channel:
        hours = await channel.get_exchange(OLD.hand("hours"), ensure=False)
        underlay = await channel.get_underlay_channel()
        await asyncio.gather(
            *(
                underlay.basic_publish(
                    body,
                    exchange=hours.name,
                    routing_key="0.0.0.5.0.0.0.orders",
                    properties=Basic.Properties(delivery_mode=2, priority=(None, 0, 3, 5, 9)[number % 5]),
                )
                for number, body in enumerate(bodies)
            )
        )

    drained = await drain(pika(broker.connection), OLD, NEW, timeout_s=60)

    assert drained.moved == {"delay.000d-05h": len(bodies)}
    assert sorted(message.body for message in await take(broker, "delay2.000d-05h", len(bodies))) == sorted(bodies)
    await _assert_nothing_old(broker)


async def _arrival_times(broker: Broker, queue: str, count: int) -> dict[bytes, float]:
    await apply(pika(broker.connection), plan.core(NEW))
    arrived: dict[bytes, float] = {}
    async with broker.connection.channel() as channel:
        source = await channel.get_queue(queue, ensure=False)
        async with source.iterator() as messages:
            async for message in messages:
                assert MARKER not in message.headers
                assert message.body not in arrived
                arrived[message.body] = time.time()
                await message.ack()
                if len(arrived) == count:
                    break
    return arrived


async def _assert_nothing_old(broker: Broker) -> None:
    found = await names_on(broker)
    assert not [name for name in found if name == "delay" or name.startswith("delay.")]


async def test_ready_queues_stay_and_rejects_reach_the_new_checkpoint(broker: Broker) -> None:
    await apply(pika(broker.connection), plan.whole(OLD, checked=["orders"]))
    await publish(broker, OLD.ready_exchange, "orders", b"ready")
    await publish(broker, "", OLD.dead_queue("orders"), b"dead")

    await drain(pika(broker.connection), OLD, NEW, topics=["orders"], timeout_s=60)
    await apply(pika(broker.connection), plan.topic(NEW, "orders"))

    async with broker.connection.channel() as channel:
        ready = await channel.get_queue("ready.orders", ensure=False)
        async with ready.iterator() as messages:
            async for message in messages:
                await message.reject()
                break
    [returned] = await take(broker, NEW.checkpoint, 1)
    assert (returned.body, returned.routing_key) == (b"ready", "orders")
    [dead] = await take(broker, "dead.orders", 1)
    assert dead.body == b"dead"
    await _assert_nothing_old(broker)
    new = plan.core(NEW) + plan.topic(NEW, "orders")
    assert (await verify(pika(broker.connection), new, management_url=broker.management_url)).findings == ()


async def test_messages_of_other_queues_are_moved_unchanged(broker: Broker) -> None:
    renamed = Names(prefix="later", ready="later-ready.", dead="later-dead.")
    await apply(pika(broker.connection), plan.whole(OLD, checked=["orders"]))
    await apply(pika(broker.connection), plan.topic(renamed, "orders") + plan.core(renamed))
    await publish(broker, OLD.acks, "orders", b"ack")
    await publish(broker, "", OLD.refused, b"refused")
    await publish(broker, OLD.ready_exchange, "orders", b"ready", expiration=3600)
    await publish(broker, "", OLD.dead_queue("orders"), b"dead")
    await publish(broker, OLD.entry, "no.key", b"odd")
    await publish(broker, OLD.ready_exchange, "orders", b"returned")
    async with broker.connection.channel() as channel:
        ready = await channel.get_queue("ready.orders", ensure=False)
        async with ready.iterator() as messages:
            async for message in messages:
                if message.body == b"returned":
                    await message.reject()
                    break

    drained = await drain(pika(broker.connection), OLD, renamed, topics=["orders"], timeout_s=60)

    assert sum(drained.moved.values()) == 6
    assert [(m.body, m.routing_key) for m in await take(broker, "later.acks", 1)] == [(b"ack", "orders")]
    assert [m.body for m in await take(broker, "later.refused", 1)] == [b"refused"]
    [ready_again] = await take(broker, "later-ready.orders", 1)
    assert (ready_again.body, ready_again.expiration) == (b"ready", 3600)
    assert [m.body for m in await take(broker, "later-dead.orders", 1)] == [b"dead"]
    at_checkpoint = {m.body: m for m in await take(broker, "later.checkpoint", 2)}
    assert at_checkpoint[b"odd"].routing_key == "no.key"
    assert deaths(at_checkpoint[b"returned"].headers)[0].reason == "rejected"
    found = await names_on(broker)
    assert not [name for name in found if name.startswith(("delay", "ready.", "dead."))]


async def test_drain_to_fewer_lanes_moves_the_others_and_keeps_the_first(broker: Broker) -> None:
    three = Names(lanes=3)
    await apply(pika(broker.connection), plan.whole(three, checked=["orders"], direct=["mails"]))
    for lane in three.each_lane:
        taken = route(lane, 5 * HOUR_MS + 200, "orders")
        await publish(broker, taken.exchange, taken.routing_key, b"waits", message_id=f"m{lane.lane}")
        await publish(broker, lane.due, f"{'0.' * 7}orders", b"due", message_id=f"d{lane.lane}")

    found = await with_lanes_found(pika(broker.connection), OLD)
    drained = await drain(pika(broker.connection), found, OLD, timeout_s=60)

    assert found == three
    assert drained.moved == {f"delay.lane{lane}.{queue}": 1 for lane in (1, 2) for queue in ("000d-05h", "checkpoint")}
    assert {message.message_id for message in await take(broker, "delay.000d-05h", 3)} == {"m0", "m1", "m2"}
    assert {message.message_id for message in await take(broker, "delay.checkpoint", 3)} == {"d0", "d1", "d2"}
    whole = plan.whole(OLD, checked=["orders"], direct=["mails"])
    assert await names_on(broker) >= {queue.name for queue in whole.queues}
    assert not [name for name in await names_on(broker) if ".lane" in name]
    assert (await verify(pika(broker.connection), whole, management_url=broker.management_url)).findings == ()
    assert await with_lanes_found(pika(broker.connection), OLD) == OLD


async def test_drain_can_be_repeated(broker: Broker) -> None:
    await apply(pika(broker.connection), plan.whole(OLD))
    taken = route(OLD, HOUR_MS, "orders")
    await publish(broker, taken.exchange, taken.routing_key, b"one")

    assert (await drain(pika(broker.connection), OLD, NEW, timeout_s=60)).moved == {"delay.000d-01h": 1}
    assert (await drain(pika(broker.connection), OLD, NEW, timeout_s=60)).moved == {}
    await _assert_nothing_old(broker)


async def test_drain_refuses_to_begin_while_an_old_queue_has_a_consumer(broker: Broker) -> None:
    await apply(pika(broker.connection), plan.whole(OLD))
    async with broker.connection.channel() as channel:
        checkpoint = await channel.get_queue(OLD.checkpoint, ensure=False)
        async with checkpoint.iterator() as messages:
            waiting = asyncio.ensure_future(anext(messages))
            with pytest.raises(TopologyError, match=r"still have consumers; stop .* first: delay\.checkpoint"):
                await _drain_once_consumed(broker, channel)
            waiting.cancel()
    assert OLD.checkpoint in await names_on(broker)


async def _drain_once_consumed(broker: Broker, channel: aio_pika.abc.AbstractChannel) -> None:
    while not (await channel.declare_queue(OLD.checkpoint, passive=True)).declaration_result.consumer_count:
        await pause()
    await drain(pika(broker.connection), OLD, NEW, timeout_s=60)
