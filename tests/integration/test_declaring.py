"""Tests that the bridge declares a queue a second time if somebody deletes it during its declare, and lists a topic
after that."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection
from typing import Any, cast
from uuid import uuid4

import aio_pika
import pytest
import pytest_asyncio

from bridge.broker.client.connection import BrokerConnection
from bridge.broker.declared.declared import Declared
from bridge.broker.declared.topic_queues import everything
from bridge.local.rabbitmq import RabbitNode
from bridge.model.breaker import Breaker
from bridge.model.errors import BrokerUnavailable, BrokerUnfit, NotPublished
from bridge.service.topics.policies import Policies
from bridge.service.topics.topics import Topics
from bridge.store.client import Store
from bridge.store.keys import Keys
from bridge.store.messages.records import Records
from tests.effective import DEFAULTS
from tests.integration.amqp import Amqp
from tests.pika import pika
from topology import declare, plan
from topology.connection import Connection
from topology.former import FormerNames
from topology.names import Names
from topology.plan import Plan


@pytest_asyncio.fixture(scope="module")
async def amqp(rabbit: RabbitNode) -> AsyncIterator[Amqp]:
    async with await aio_pika.connect(rabbit.amqp_url) as connection:
        yield Amqp(connection)


@pytest.fixture(scope="module")
def prefix() -> str:
    """A prefix that no other test uses."""
    return f"d{uuid4().hex[:12]}"


@pytest_asyncio.fixture(scope="module")
async def link(rabbit: RabbitNode) -> AsyncIterator[BrokerConnection]:
    link = BrokerConnection(
        [rabbit.amqp_url], purpose="test", timeout_ms=30_000, check=lambda _: None, breaker=Breaker()
    )
    yield link
    await link.drop()


@pytest_asyncio.fixture(scope="module")
async def objects(link: BrokerConnection, amqp: Amqp, prefix: str) -> AsyncIterator[Declared]:
    """Declares the wheel and a topic's queues."""
    names = Names(prefix=prefix, ready=f"{prefix}-ready.", dead=f"{prefix}-dead.")
    objects = Declared(link, names, delivery_limit=20, publishers=(), listed=everything)
    await objects.ensure_topic("orders")
    yield objects
    await declare.remove(pika(amqp.connection), objects.wanted(["orders"]))


def deleted_before_bound(monkeypatch: pytest.MonkeyPatch, amqp: Amqp, queue: str, *, times: int) -> None:
    """Deletes the queue before its bindings are declared, the first `times` times."""
    # A bridge goes on without the answer of a slow machine.
    monkeypatch.setattr("bridge.broker.declared.declare._BOUND_WITHIN_S", 60.0)
    apply, left = declare.apply, iter(range(times))

    async def applied(connection: Connection, plan: Plan, *, timeout_s: float) -> None:
        of_it = any(binding.destination == queue for binding in plan.bindings)
        if of_it and next(left, None) is not None:
            await amqp.delete_queue(queue)
        await apply(connection, plan, timeout_s=timeout_s)

    monkeypatch.setattr(declare, "apply", applied)


async def test_topic_queue_deleted_during_its_declare_is_declared_again(
    objects: Declared, amqp: Amqp, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await objects.settled(["orders"], old=())
    assert not objects.unsettled("orders")
    deleted_before_bound(monkeypatch, amqp, objects.ready_queue("orders"), times=1)
    objects.forget_topics(["orders"])
    await objects.ensure_topic("orders")
    await amqp.publish(f"{prefix}.ready", "orders")
    assert await objects.depth(objects.ready_queue("orders")) == 1
    assert objects.unsettled("orders")  # it is a new one, whose confirms do not count yet


async def test_wheel_is_not_declared_beside_slots_of_an_earlier_version(link: BrokerConnection, amqp: Amqp) -> None:
    names = Names(prefix=f"d{uuid4().hex[:12]}")
    former = plan.Plan(queues=plan.slots(FormerNames.of(names)).queues[-1:])
    await declare.apply(pika(amqp.connection), former)
    objects = Declared(link, names, delivery_limit=20, publishers=(), listed=everything)
    with pytest.raises(BrokerUnfit, match=rf"the queue {names.prefix}\.900ms of an earlier version .* topology drain"):
        await objects.wheel.ensure()
    assert await amqp.count(names.checkpoint) is None
    await declare.remove(pika(amqp.connection), former)


async def test_topic_is_not_declared_again_after_a_reconnect(
    objects: Declared, link: BrokerConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    apply = declare.apply
    declared: set[str] = set()

    async def applied(connection: Connection, plan: Plan, *, timeout_s: float) -> None:
        declared.update(queue.name for queue in plan.queues)
        await apply(connection, plan, timeout_s=timeout_s)

    monkeypatch.setattr(declare, "apply", applied)
    await link.drop()
    await objects.ensure_topic("orders")
    assert objects.checkpoint_queue(0) in declared
    assert objects.ready_queue("orders") not in declared


async def test_topic_is_declared_again_after_a_reconnect_if_the_wheel_is_gone(
    objects: Declared, link: BrokerConnection, amqp: Amqp
) -> None:
    wheel, ready_queue = objects.wanted([]), objects.ready_queue("orders")
    await declare.remove(pika(amqp.connection), wheel)
    await amqp.delete_queue(ready_queue)
    await link.drop()
    await objects.ensure_topic("orders")
    assert await objects.depth(ready_queue) == 0


async def test_inspection_declares_no_queues_of_a_topic_that_is_removed_meanwhile(
    objects: Declared, amqp: Amqp
) -> None:
    await amqp.delete_queue(objects.ready_queue("orders"))

    async def listed() -> list[str]:
        return ["orders"]

    mended = await objects.mend(objects.wanted(["orders", "removed"]), listed)
    assert (mended.declared, mended.missing) == ([objects.ready_queue("orders")], set())
    assert await amqp.count(objects.ready_queue("orders")) == 0
    assert [await amqp.count(of("removed")) for of in (objects.ready_queue, objects.dead_queue)] == [None, None]


async def test_dead_queue_of_a_removed_topic_is_not_declared(
    objects: Declared, amqp: Amqp, link: BrokerConnection
) -> None:
    async def listed(_: Collection[str]) -> list[str]:
        return []

    objects = Declared(link, objects._names, delivery_limit=20, publishers=(), listed=listed)
    with pytest.raises(NotPublished, match="there is no topic 'invoices'"):
        await objects.ensure_dead("invoices")
    assert await amqp.count(objects.dead_queue("invoices")) is None


async def test_dead_queue_that_is_declared_during_the_removal_of_its_topic_is_deleted(
    objects: Declared, amqp: Amqp, link: BrokerConnection
) -> None:
    removing: list[asyncio.Task[None]] = []

    async def listed(topics: Collection[str]) -> Collection[str]:
        removing.append(asyncio.create_task(objects.remove_topic("invoices")))
        await asyncio.wait(removing, timeout=0.5)
        return topics

    objects = Declared(link, objects._names, delivery_limit=20, publishers=(), listed=listed)
    await objects.ensure_dead("invoices")
    await removing[0]
    assert await amqp.count(objects.dead_queue("invoices")) is None


async def test_topic_is_listed_once_its_queues_are_declared(
    objects: Declared, prefix: str, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = Keys(prefix)
    records = Records(keys=keys, retention_ms=1, tombstone_ms=1)
    topics = Topics(store, records, objects, Policies(store, keys, objects, DEFAULTS), cast("Any", None))
    apply = declare.apply
    listed: list[list[str]] = []

    async def applied(connection: Connection, plan: Plan, *, timeout_s: float) -> None:
        await apply(connection, plan, timeout_s=timeout_s)
        listed.append(await topics.names())

    monkeypatch.setattr(declare, "apply", applied)
    await topics.used("invoices")
    assert listed == [[], []]  # after the queues, and after the bindings
    assert await topics.names() == ["invoices"]
    await objects.remove_topic("invoices")


async def test_wheel_queue_deleted_during_its_declare_is_declared_again(
    objects: Declared, amqp: Amqp, monkeypatch: pytest.MonkeyPatch
) -> None:
    deleted_before_bound(monkeypatch, amqp, objects.checkpoint_queue(0), times=1)
    await objects.wheel.renew()
    assert await objects.checkpoint_depth() == 0


async def test_queue_deleted_during_every_declare_is_an_error(
    objects: Declared, amqp: Amqp, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = objects.ready_queue("orders")
    deleted_before_bound(monkeypatch, amqp, queue, times=2)
    objects.forget_topics(["orders"])
    with pytest.raises(BrokerUnavailable, match=queue):
        await objects.ensure_topic("orders")
    await objects.ensure_topic("orders")
    assert await objects.depth(queue) == 0
