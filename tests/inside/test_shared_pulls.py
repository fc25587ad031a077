"""Tests pulls that share takes: who gets which message, and what becomes of messages that no pull wants any more."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from typing import Any
from uuid import uuid4

import aio_pika
import pytest
import pytest_asyncio

from bridge.broker.client.channel import Channel
from bridge.broker.publications import Publication
from bridge.broker.ready import feed as feed_module
from bridge.broker.ready.feed import Feed
from bridge.model.errors import BrokerUnavailable, StoreUnavailable, Unavailable
from bridge.model.message import Envelope
from bridge.model.values import Draft, Leased, Policy
from bridge.service.pulling import dealing, dispatcher
from bridge.service.service import Service
from bridge.store.calls import Call
from tests.forked_bridge import PATIENCE
from tests.inside.running import running
from tests.inside.stage import Stage
from tests.integration.amqp import Amqp
from tests.waiting import pause

WAIT_MS = 100_000  # longer than any test may take
SHORT_MS = 4_000  # a lease that has its lease copy at once


@pytest_asyncio.fixture(loop_scope="function")
async def service(stage: Stage) -> AsyncIterator[Service]:
    # Five thousand pulls that begin together keep this process busy for long.
    async with running(stage, broker_timeout="60s", store_timeout="60s") as service:
        yield service


@pytest_asyncio.fixture(loop_scope="function")
async def amqp(stage: Stage) -> AsyncIterator[Amqp]:
    async with await aio_pika.connect(stage.amqp_url) as connection:
        yield Amqp(connection)


@pytest.fixture
def topic() -> str:
    return f"shared-{uuid4().hex[:12]}"


@pytest.fixture
def always_steady(monkeypatch: pytest.MonkeyPatch) -> None:
    """Takes pulls for steady, and keeps what is in the buffer for the length of the test."""
    monkeypatch.setattr(dealing, "_STEADY_S", 1e6)
    monkeypatch.setattr(dispatcher, "_LINGER_S", 1e6)


async def send(service: Service, topic: str, count: int, amqp: Amqp) -> list[str]:
    """Sends messages that are due now. Returns their ids in order, once all are ready."""
    sent = await send_unawaited(service, topic, count)
    while await amqp.count(ready(service, topic)) != count:
        await pause()
    return sent


async def send_unawaited(service: Service, topic: str, count: int) -> list[str]:
    sent = [f"m-{number:03}" for number in range(count)]
    for one in sent:
        await service.sending.send(Draft(topic=topic, id=one, envelope=Envelope(body=b"1")))
    return sent


def ready(service: Service, topic: str) -> str:
    return service.context.broker.declared.ready_queue(topic)


def pulling(
    service: Service, topic: str, limit: int = 1, wait_ms: int = WAIT_MS, lease_ms: int = 60_000
) -> asyncio.Task[list[Leased]]:
    return asyncio.create_task(service.pulling.pull([topic], limit=limit, wait_ms=wait_ms, lease_ms=lease_ms))


def ids(leased: Sequence[Leased]) -> list[str]:
    return [one.message.record.id for one in leased]


def feed(service: Service, topic: str) -> Feed | None:
    of_topic = service.pulling._dispatchers.get(topic)
    return None if of_topic is None else of_topic._feed


async def until_in_hand(service: Service, topic: str, count: int) -> Feed:
    while (found := feed(service, topic)) is None or len(found.buffer) != count:
        await pause()
    return found


async def hold(service: Service, topic: str, amqp: Amqp) -> list[str]:
    """Lets steady pulls end while the bridge has buffered messages. Returns the ids of all that are left."""
    left = await send(service, topic, 24, amqp)
    while (found := feed(service, topic)) is None:
        pulled = await asyncio.gather(*(pulling(service, topic) for _ in range(4)))
        left = sorted({*left} - {one for leased in pulled for one in ids(leased)})
    await until_in_hand(service, topic, min(found.window, len(left)))
    return left


class Counted:
    """Counts the calls of Redis that lease, and the bursts of lease copies."""

    def __init__(self, service: Service) -> None:
        self.calls = self.bursts = 0
        store, publisher = service.context.store, service.context.broker.copy_publisher
        run, publish = store.run, publisher.publish

        async def counting(calls: Sequence[Call[Any]], until_s: float | None = None) -> list[Any]:
            self.calls += any(call.script.name == "lease" for call in calls)
            return await run(calls, until_s)

        async def publishing(publications: Sequence[Publication]) -> list[BrokerUnavailable | None]:
            self.bursts += 1
            return await publish(publications)

        store.run = counting  # type: ignore[method-assign]
        publisher.publish = publishing  # type: ignore[method-assign]


async def test_message_lost_on_its_way_comes_though_pulls_keep_coming_and_a_busy_topic_shares_the_channel(
    service: Service, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RabbitMQ loses a delivery when the leader of its queue ends."""
    lost = [1]
    read = Channel._delivered

    def without_one(self: Channel, consumer: bytes, came: Any, *content: bytes) -> None:
        # A new topic's message may come to the checkpoint first.
        if (
            lost
            and content[-1] == b"lost"
            and isinstance(getattr(self._consumers[consumer][1], "__self__", None), Feed)
        ):
            lost.pop()
            consumer = b"none"
        read(self, consumer, came, *content)

    monkeypatch.setattr(Channel, "_delivered", without_one)
    monkeypatch.setattr(dispatcher, "_SILENT_S", 1.0)
    monkeypatch.setattr(feed_module, "_OUTDATED_AFTER_S", 0.5)
    busy = asyncio.create_task(keep_busy(service, f"{topic}-beside"))
    await service.sending.send(Draft(topic=topic, id="first", envelope=Envelope(body=b"1")))
    assert ids(await pulling(service, topic)) == ["first"]
    waiting = pulling(service, topic)
    while feed(service, topic) is None:
        await pause()
    await service.sending.send(Draft(topic=topic, id="lost", envelope=Envelope(body=b"lost")))
    while not waiting.done():
        assert await pulling(service, topic, wait_ms=50) == []

    assert (ids(await waiting), lost, busy.done()) == (["lost"], [], False)
    busy.cancel()


async def keep_busy(service: Service, topic: str) -> None:
    """Sends and pulls a message again and again. The pull waits first."""
    while True:
        pulled = pulling(service, topic)
        await service.sending.send(Draft(topic=topic, envelope=Envelope(body=b"1")))
        await pulled


@pytest.mark.parametrize("wait_ms", [1, 10])
async def test_pull_that_waits_for_a_moment_gets_a_ready_message(
    service: Service, topic: str, amqp: Amqp, wait_ms: int
) -> None:
    # A topic each: of pulls that keep coming, one may come while the messages that were taken for it are put back.
    for one in (f"{topic}-{number}" for number in range(10)):
        sent = await send(service, one, 1, amqp)
        assert ids(await pulling(service, one, wait_ms=wait_ms)) == sent
        assert await pulling(service, one, wait_ms=wait_ms) == []


async def test_pulls_that_come_together_share_one_call(service: Service, topic: str, amqp: Amqp) -> None:
    sent = await send(service, topic, 64, amqp)
    counted = Counted(service)
    pulled = await asyncio.gather(*(pulling(service, topic) for _ in range(64)))
    assert sorted(one for leased in pulled for one in ids(leased)) == sent
    assert counted.calls <= 4
    assert counted.bursts == 0


async def test_short_leases_that_begin_together_share_one_burst(service: Service, topic: str, amqp: Amqp) -> None:
    sent = await send(service, topic, 64, amqp)
    counted = Counted(service)
    pulled = await asyncio.gather(*(pulling(service, topic, lease_ms=SHORT_MS) for _ in range(64)))
    assert sorted(one for leased in pulled for one in ids(leased)) == sent
    assert counted.calls == counted.bursts
    assert counted.calls <= 4


async def test_messages_go_to_waiting_pulls_in_the_order_of_arrival(service: Service, topic: str, amqp: Amqp) -> None:
    await service.topics.put_policy(topic, Policy())
    polls = []
    for at, limit in enumerate((2, 1, 3)):
        polls.append(pulling(service, topic, limit))
        while (found := feed(service, topic)) is None or found.window < (2, 3, 6)[at]:
            await pause()
    await service.sending.send(Draft(topic=topic, id="first", envelope=Envelope(body=b"1")))
    assert ids(await polls[0]) == ["first"]
    await service.sending.send(Draft(topic=topic, id="second", envelope=Envelope(body=b"1")))
    assert ids(await polls[1]) == ["second"]
    polls[2].cancel()


async def test_a_thousand_waiting_pulls_share_one_consumer_and_leave_none(
    service: Service, topic: str, amqp: Amqp
) -> None:
    await service.topics.put_policy(topic, Policy())
    polls = [pulling(service, topic) for _ in range(1_000)]
    await amqp.until_consumers(ready(service, topic), 1)
    found = await until_in_hand(service, topic, 0)
    # Until then the pulls keep this process busy, perhaps for longer than a send may take.
    while len(service.pulling._dispatchers[topic]._wants) < 1_000:
        await pause()
    assert found.window == dealing.MOST
    await service.sending.send(Draft(topic=topic, id="it", envelope=Envelope(body=b"1")))
    # Whichever came first: each asks Redis before it waits, and these answers may come in another order.
    (answered,), others = await asyncio.wait(polls, return_when=asyncio.FIRST_COMPLETED)
    assert ids(answered.result()) == ["it"]
    service.pulling.end_waits()
    assert await asyncio.gather(*others) == [[]] * 999
    await amqp.until_consumers(ready(service, topic), 0)
    while service.pulling._dispatchers:
        await pause()


async def test_dispatchers_of_idle_topics_vanish(service: Service, topic: str, amqp: Amqp) -> None:
    topics = [f"{topic}-{number}" for number in range(20)]
    for one in topics:
        await service.topics.put_policy(one, Policy())
    pulls = [pulling(service, one, wait_ms=300) for one in topics for _ in range(5)]
    assert await asyncio.gather(*pulls) == [[]] * 100
    while service.pulling._dispatchers:
        await pause()
    for one in topics:
        await amqp.until_consumers(ready(service, one), 0)


@pytest.mark.usefixtures("always_steady")
async def test_pulls_without_a_wait_get_what_others_left_in_hand(service: Service, topic: str, amqp: Amqp) -> None:
    left = await hold(service, topic, amqp)
    # What an earlier consumer gave back stands behind the others.
    assert sorted(ids(await pulling(service, topic, limit=100, wait_ms=0))) == left
    assert await pulling(service, topic, limit=100, wait_ms=0) == []


@pytest.mark.usefixtures("always_steady")
async def test_messages_that_no_pull_wants_any_more_are_ready_again_and_count_no_delivery(
    service: Service, topic: str, amqp: Amqp, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = await hold(service, topic, amqp)
    monkeypatch.setattr(dispatcher, "_LINGER_S", 0.0)
    service.pulling._dispatchers[topic].wake()
    await all_are_ready(service, topic, amqp, left)


@pytest.mark.usefixtures("always_steady")
async def test_stopping_bridge_gives_back_what_it_has_in_hand(stage: Stage, topic: str, amqp: Amqp) -> None:
    async with running(stage, roles="api", **PATIENCE) as other:
        async with running(stage, **PATIENCE) as service:
            left = await hold(service, topic, amqp)
        await all_are_ready(other, topic, amqp, left)


async def all_are_ready(service: Service, topic: str, amqp: Amqp, left: list[str]) -> None:
    queue = ready(service, topic)
    while await amqp.count(queue) != len(left):
        await pause()
    copies = [await amqp.get(queue) for _ in left]
    assert sorted(copy.message_id or "" for copy in copies if copy is not None) == left
    assert [copy.headers.get("x-delivery-count", 0) for copy in copies if copy is not None] == [0] * len(left)


@pytest.mark.usefixtures("always_steady")
async def test_messages_in_hand_at_a_cut_connection_are_pulled_once_each(stage: Stage, topic: str, amqp: Amqp) -> None:
    async with stage.proxy(stage.amqp_url) as proxy, running(stage, amqp_url=proxy.url, **PATIENCE) as service:
        left = await hold(service, topic, amqp)
        proxy.cut()
        while await amqp.count(ready(service, topic)) != len(left):
            await pause()
        proxy.mend()
        found: list[Leased] = []
        while len(found) < len(left):
            with suppress(Unavailable):
                found += await pulling(service, topic, limit=3, wait_ms=1_000)
        assert sorted(ids(found)) == left
        assert {one.message.record.attempts for one in found} == {1}


@pytest.mark.usefixtures("always_steady")
async def test_paused_topic_gives_back_what_is_in_hand_and_hands_out_nothing(
    service: Service, topic: str, amqp: Amqp
) -> None:
    left = await hold(service, topic, amqp)
    await service.topics.put_policy(topic, Policy(paused=True))
    assert await pulling(service, topic, limit=100, wait_ms=0) == []
    await all_are_ready(service, topic, amqp, left)


@pytest.mark.usefixtures("always_steady")
async def test_deleted_queue_takes_what_is_in_hand_along_and_later_messages_come(
    service: Service, topic: str, amqp: Amqp
) -> None:
    await hold(service, topic, amqp)
    await amqp.delete_queue(ready(service, topic))
    await service.sending.send(Draft(topic=topic, id="later", envelope=Envelope(body=b"1")))
    # The bridge may hear of the deletion after a pull, which gets a buffered message then.
    while ids(await pulling(service, topic)) != ["later"]:
        pass


async def test_group_whose_lease_fails_is_refused_and_pulled_again(
    service: Service, topic: str, amqp: Amqp, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = await send(service, topic, 8, amqp)
    store = service.context.store
    run = store.run

    async def refusing(calls: Sequence[Call[Any]], until_s: float | None = None) -> list[Any]:
        if any(call.script.name == "lease" for call in calls):
            raise StoreUnavailable("away")
        return await run(calls, until_s)

    monkeypatch.setattr(store, "run", refusing)
    refused = await asyncio.gather(*(pulling(service, topic) for _ in range(8)), return_exceptions=True)
    assert [type(one) for one in refused] == [StoreUnavailable] * 8
    monkeypatch.undo()
    pulled: list[Leased] = []
    while len(pulled) < 8:
        pulled += await pulling(service, topic, limit=3)
    assert sorted(ids(pulled)) == sent


@pytest.mark.expects_log("task.failed")
async def test_topic_whose_feed_fails_and_can_not_be_closed_serves_the_next_pull(
    service: Service, topic: str, amqp: Amqp, monkeypatch: pytest.MonkeyPatch
) -> None:
    await service.topics.put_policy(topic, Policy())
    poll = pulling(service, topic)
    found = await until_in_hand(service, topic, 0)

    async def failing(*_: object) -> None:
        raise RuntimeError("an injected fault")

    cancel = found.cancel

    async def cancelled_and_failing() -> None:
        await cancel()
        await failing()

    monkeypatch.setattr(found, "resize", failing)
    monkeypatch.setattr(found, "cancel", cancelled_and_failing)
    refused = await asyncio.gather(poll, pulling(service, topic, limit=9), return_exceptions=True)
    assert [type(one) for one in refused] == [RuntimeError] * 2
    (sent,) = await send_unawaited(service, topic, 1)
    while ids(await pulling(service, topic, wait_ms=1_000)) != [sent]:
        pass


async def test_pulls_that_are_left_leave_their_messages_to_the_others(service: Service, topic: str, amqp: Amqp) -> None:
    await service.topics.put_policy(topic, Policy())
    polls = [pulling(service, topic) for _ in range(10)]
    found = await until_in_hand(service, topic, 0)
    while found.window < 10:
        await pause()
    for poll in polls[::2]:
        poll.cancel()
    sent = await send_unawaited(service, topic, 5)
    assert sorted(one for leased in await asyncio.gather(*polls[1::2]) for one in ids(leased)) == sent
