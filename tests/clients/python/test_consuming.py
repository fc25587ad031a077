"""Tests the consumers of the Python client on a running bridge: leases, acks, nacks, drains and stops."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest

from delaybridge_client import (
    Backoff,
    Client,
    Consumer,
    Delivery,
    Forbidden,
    InvalidArgument,
    Late,
    LeasedMessage,
    NewMessage,
    SyncClient,
)
from tests.clients.python.scripted import MESSAGE, Scripted, answer, problem
from tests.waiting import pause

SHORT = timedelta(seconds=1)
NOW = timedelta()
NOT_SOON = Backoff(steps=(timedelta(hours=1),))
"""A busy machine may take longer than the default back-off of a second: then the consumer gets the message again."""


async def _until_state(client: Client, topic: str, message_id: str, state: str) -> str | None:
    """Asks until the message has the state, and returns its reason."""
    while (found := await client.look_up(topic, message_id)).state != state:
        await pause()
    return found.reason


async def test_acks_of_a_closed_client_fail_and_do_not_wait(bridge_url: str, client: Client, topic: str) -> None:
    await client.send_many(topic, [NewMessage(1), NewMessage(2)])
    consuming = Client(bridge_url)

    async def consume() -> None:
        async with consuming.consumer(topic) as consumer:
            deliveries = [await anext(consumer), await anext(consumer)]
            await consuming.close()
            for delivery in deliveries:
                with pytest.raises(RuntimeError, match="closed"):
                    await delivery.ack()
            await anext(consumer)

    with pytest.raises(RuntimeError, match="closed"):
        await consume()


async def test_handlers_run_at_once_up_to_the_concurrency_and_each_message_is_acked(client: Client, topic: str) -> None:
    sent = await client.send_many(topic, [NewMessage({"number": number}) for number in range(60)])
    running = most = 0
    handled: set[str] = set()
    consumer = client.consumer(topic, concurrency=7)

    async def handle(delivery: Delivery) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await pause()
        running -= 1
        handled.add(delivery.id)
        if len(handled) == len(sent):
            consumer.stop()

    await consumer.run(handle)
    assert most == 7
    assert (consumer.counts.pulled, consumer.counts.acked, consumer.counts.late) == (60, 60, 0)
    assert {(await client.look_up(topic, one)).state for one in handled} == {"acked"}


async def test_lease_is_extended_while_the_handler_works(client: Client, topic: str) -> None:
    sent = await client.send(topic, "long")
    consumer = client.consumer(topic, lease=SHORT)

    async def handle(delivery: Delivery) -> None:
        first = delivery.message.lease_until
        assert first is not None
        while True:
            found = await client.look_up(topic, delivery.id)
            assert (found.state, found.attempts) == ("leased", 1)
            if found.lease_until is not None and found.lease_until > first + 2 * SHORT:
                break
            await pause()
        consumer.stop()

    await consumer.run(handle)
    assert (await client.look_up(topic, sent.id)).state == "acked"
    assert consumer.counts.late == 0


@pytest.mark.expects_log("the handler failed on %s/%s (attempt %d)", at_least=1, at_most=3)
async def test_message_whose_handler_fails_is_nacked_with_the_reason(client: Client, topic: str) -> None:
    await client.patch_policy(topic, backoff=Backoff(steps=(NOW,)), max_retry=1)
    sent = await client.send(topic, {"card": 1})
    consumer = client.consumer(topic)
    attempts: list[int] = []

    async def handle(delivery: Delivery) -> None:
        attempts.append(delivery.attempts)
        if len(attempts) == 2:
            consumer.stop()
        raise ValueError("card\nrefused")

    await consumer.run(handle)
    assert attempts == [1, 2]
    assert await _until_state(client, topic, sent.id, "dead") == "ValueError: card refused"
    assert consumer.counts.nacked == 2


async def test_handler_may_settle_its_message_itself(client: Client, topic: str) -> None:
    sent = await client.send(topic, 1)
    consumer = client.consumer(topic)

    async def handle(delivery: Delivery) -> None:
        assert await delivery.nack(delay=timedelta(hours=1), reason="not today")
        consumer.stop()

    await consumer.run(handle)
    found = await client.look_up(topic, sent.id)
    assert (found.state, found.reason) == ("waiting", "not today")


async def test_ack_after_the_lease_is_reported_and_does_not_end_the_message(client: Client, topic: str) -> None:
    sent = await client.send(topic, 1)
    late: list[Late] = []
    async with client.consumer(topic, concurrency=1, lease=SHORT, longest=NOW, on_late=late.append) as consumer:
        delivery = await anext(consumer)
        again = (await client.pull(topic, wait=timedelta(seconds=30)))[0]
        assert (again.id, again.attempts) == (sent.id, 2)
        assert delivery.lease_lost
        assert not await delivery.ack()
    assert [(one.message.id, one.why) for one in late] == [(sent.id, "stale")]
    assert consumer.counts.late == 1
    assert (await client.look_up(topic, sent.id)).state == "leased"


async def test_handler_that_blocks_the_loop_is_named_as_the_reason(client: Client, topic: str) -> None:
    await client.send(topic, 1)
    late: list[Late] = []
    async with client.consumer(topic, concurrency=1, lease=SHORT, on_late=late.append) as consumer:
        delivery = await anext(consumer)
        time.sleep(SHORT.total_seconds() + 1)  # noqa: ASYNC251 - such a handler is tested
        assert not await delivery.ack()
    (one,) = late
    assert one.why.startswith("stale: the handler blocked the event loop for ")


async def _fail_on_the_second(consumer: Consumer, order: list[str]) -> None:
    async with consumer:
        async for delivery in consumer:
            async with delivery:
                order.append(delivery.id)
                if len(order) == 2:
                    raise KeyError("order")


async def test_iteration_settles_each_delivery_by_its_block(client: Client, topic: str) -> None:
    ids = {f"m-{number}" for number in range(3)}
    await client.patch_policy(topic, backoff=NOT_SOON)
    await client.send_many(topic, [NewMessage(1, id=one) for one in ids])
    order: list[str] = []
    with pytest.raises(KeyError):
        await _fail_on_the_second(client.consumer(topic, concurrency=3), order)
    first, second = order
    (third,) = ids - {first, second}
    assert (await client.look_up(topic, first)).state == "acked"
    assert (await client.look_up(topic, second)).reason == "KeyError: 'order'"
    assert (await client.look_up(topic, third)).reason in {None, "the consumer stopped before it was done"}


async def test_stop_lets_running_handlers_end_and_gives_back_the_rest(client: Client, topic: str) -> None:
    await client.send_many(topic, [NewMessage(number) for number in range(2)])
    both, ended = asyncio.Barrier(3), 0

    async def handle(delivery: Delivery) -> None:
        nonlocal ended
        await both.wait()
        await pause()
        ended += 1

    consumer = client.consumer(topic, concurrency=2)
    running = asyncio.create_task(consumer.run(handle))
    await both.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert (ended, consumer.counts.acked) == (2, 2)


async def test_handlers_that_outlast_the_drain_are_cancelled_and_their_messages_given_back(
    client: Client, topic: str
) -> None:
    sent = await client.send(topic, 1)
    begun = asyncio.Event()

    async def handle(delivery: Delivery) -> None:
        begun.set()
        await asyncio.Event().wait()

    consumer = client.consumer(topic, drain=timedelta(milliseconds=10))
    running = asyncio.create_task(consumer.run(handle))
    await begun.wait()
    consumer.stop()
    await running
    (again,) = await client.pull(topic, wait=timedelta(seconds=30))
    assert (again.id, again.attempts, again.reason) == (sent.id, 2, "the consumer stopped before it was done")


async def test_several_topics_are_consumed_by_priority(client: Client, topic: str, topics: asyncio.Queue[str]) -> None:
    urgent = await topics.get()
    await client.send(topic, "normal")
    await client.send(urgent, "urgent")
    consumer, order = client.consumer(urgent, topic, concurrency=1), []

    async def handle(delivery: Delivery) -> None:
        order.append((delivery.topic, delivery.body))
        if len(order) == 2:
            consumer.stop()

    await consumer.run(handle)
    assert sorted(order) == sorted([(urgent, "urgent"), (topic, "normal")])


@pytest.mark.expects_log("the handler failed on %s/%s (attempt %d)")
def test_sync_consumer_handles_acks_and_nacks(bridge_url: str, topic: str) -> None:
    stop, seen = threading.Event(), []

    def handle(message: LeasedMessage) -> None:
        seen.append(message.body)
        if len(seen) == 2:
            stop.set()
        if message.body == "bad":
            raise ValueError("bad body")

    with SyncClient(bridge_url) as client:
        client.patch_policy(topic, backoff=NOT_SOON)
        client.send(topic, "good", id="good")
        client.send(topic, "bad", id="bad")
        counts = client.consume(topic, handle=handle, stop=stop, lease=SHORT)
        assert sorted(seen) == ["bad", "good"]
        assert (counts.acked, counts.nacked, counts.late) == (1, 1, 0)
        assert client.look_up(topic, "bad").reason == "ValueError: bad body"


def test_sync_consumer_extends_the_lease(bridge_url: str, topic: str) -> None:
    stop = threading.Event()
    with SyncClient(bridge_url) as client:
        client.send(topic, 1, id="long")

        def handle(message: LeasedMessage) -> None:
            stop.set()
            while True:
                found = client.look_up(topic, "long")
                assert found.lease_until is not None
                assert message.lease_until is not None
                if found.lease_until > message.lease_until + SHORT:
                    return

        assert client.consume(topic, handle=handle, stop=stop, lease=SHORT).acked == 1


async def test_consumer_goes_on_after_outages(scripted: Scripted) -> None:
    leased = MESSAGE | {"state": "leased", "attempts": 1, "receipt": "r-1"}
    scripted.answers = [
        problem(503, headers={"retry-after": "0"}),
        problem(500, "internal"),
        answer({"messages": [leased]}),
        problem(503),
        answer({"results": [{"id": "o-1", "result": "acked"}]}),
    ]
    async with scripted.client() as client, client.consumer("orders", concurrency=1) as consumer:
        delivery = await anext(consumer)
        assert delivery.body == {"order": 1}
        consumer.stop()
        assert await delivery.ack()
    assert consumer.counts.acked == 1


async def test_ack_that_nobody_answers_is_reported_when_the_lease_has_ended(scripted: Scripted) -> None:
    leased = MESSAGE | {"state": "leased", "attempts": 1, "receipt": "r-1"}
    scripted.answers = [answer({"messages": [leased]}), problem(503)]
    late: list[Late] = []
    async with (
        scripted.client() as client,
        client.consumer("orders", concurrency=1, lease=SHORT, on_late=late.append) as consumer,
    ):
        assert not await (await anext(consumer)).ack()
    assert [type(one) for one in late] == [Late]
    assert "what is wrong" in late[0].why


async def _iterate(consumer: Consumer) -> None:
    async with consumer:
        await anext(consumer)


@pytest.mark.parametrize("consume", [_iterate, lambda consumer: consumer.run(lambda _: asyncio.sleep(0))])
async def test_refused_pull_ends_the_consumer_with_the_error(
    scripted: Scripted, consume: Callable[[Consumer], Awaitable[None]]
) -> None:
    scripted.answers = [problem(403, "insufficient-scope")]
    async with scripted.client() as client:
        with pytest.raises(Forbidden):
            await consume(client.consumer("orders"))


async def test_lost_lease_stops_its_extensions(scripted: Scripted) -> None:
    leased = MESSAGE | {"state": "leased", "attempts": 1, "receipt": "r-1"}
    scripted.answers = [answer({"messages": [leased]}), problem(409, "lease-ended")]
    async with scripted.client() as client, client.consumer("orders", concurrency=1, lease=SHORT) as consumer:
        delivery = await anext(consumer)
        while not delivery.lease_lost:
            await pause()
        assert not await delivery.nack()
    assert [request.url.path.rpartition("/")[2] for request in scripted.requests] == ["pull", "extend", "nack"]


@pytest.mark.parametrize(
    ("terms", "field"),
    [
        ({"concurrency": 0}, "concurrency"),
        ({"lease": timedelta(milliseconds=999)}, "lease"),
        ({"lease": timedelta(hours=13)}, "lease"),
        ({"poll": timedelta(seconds=61)}, "poll"),
    ],
)
async def test_wrong_terms_are_refused_at_once(scripted: Scripted, terms: dict[str, object], field: str) -> None:
    async with scripted.client() as client:
        with pytest.raises(InvalidArgument, match=field):
            client.consumer("orders", **terms)  # type: ignore[arg-type]
        with pytest.raises(InvalidArgument, match="topics"):
            client.consumer()
