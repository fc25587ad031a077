"""Tests which acks of a consumer go along with its next pull, and what becomes of them if that pull fails."""

from __future__ import annotations

import asyncio
import json
import threading
from datetime import timedelta
from typing import Any

import httpx2

from delaybridge_client import Client, Delivery, Late, LeasedMessage, NewMessage, SyncClient
from tests.clients.python.scripted import MESSAGE, Scripted, answer, problem


def leased(number: int, topic: str = "orders") -> dict[str, Any]:
    return MESSAGE | {"topic": topic, "id": f"o-{number}", "state": "leased", "attempts": 1, "receipt": f"r-{number}"}


class Bridge:
    """Answers as a bridge with endless messages. `calls`: the name of each call, and what it acked. `failures`: answers
    to pulls with acks that come first."""

    def __init__(self, *failures: Any) -> None:
        self.calls: list[tuple[str, list[Any]]] = []
        self.taken = 0
        self._failures = list(failures)

    def answer(self, request: httpx2.Request) -> httpx2.Response:
        name, body = request.url.path.rpartition("/")[2], json.loads(request.content)
        acks = body.get("ack") or body.get("receipts") or []
        self.calls.append((name, acks))
        if name == "ack":
            return answer({"results": [{"id": one, "result": "acked"} for one in acks]})
        if acks and self._failures:
            failure: httpx2.Response = self._failures.pop(0)
            return failure
        messages = [leased(self.taken + number) for number in range(1, body["max"] + 1)]
        self.taken += len(messages)
        acked = {"acked": [{"id": "o", "result": "acked"} for _ in acks]} if acks else {}
        return answer({"messages": messages, **acked})

    def client(self) -> Client:
        return Client("http://bridge.test", transport=httpx2.MockTransport(self.answer))

    def sync_client(self) -> SyncClient:
        return SyncClient("http://bridge.test", transport=httpx2.MockTransport(self.answer))


async def handle_three(bridge: Bridge) -> tuple[int, int]:
    """Handles three messages, one after the other. Returns the counts of acked and late ones."""
    seen = 0

    async def handle(delivery: Delivery) -> None:
        nonlocal seen
        seen += 1
        if seen == 3:
            consumer.stop()

    async with bridge.client() as client:
        consumer = client.consumer("orders", concurrency=1)
        await consumer.run(handle)
    return consumer.counts.acked, consumer.counts.late


def handle_three_without_asyncio(bridge: Bridge) -> tuple[int, int]:
    seen: list[str] = []
    stop = threading.Event()

    def handle(message: LeasedMessage) -> None:
        seen.append(message.id)
        if len(seen) == 3:
            stop.set()

    with bridge.sync_client() as client:
        counts = client.consume("orders", handle=handle, stop=stop)
    return counts.acked, counts.late


async def test_message_costs_one_call_and_the_last_ack_its_own() -> None:
    bridge = Bridge()
    assert await handle_three(bridge) == (3, 0)
    assert bridge.calls == [("pull", []), ("pull", ["r-1"]), ("pull", ["r-2"]), ("ack", ["r-3"])]


def test_sync_consumer_makes_the_same_calls() -> None:
    bridge = Bridge()
    assert handle_three_without_asyncio(bridge) == (3, 0)
    assert bridge.calls == [("pull", []), ("pull", ["r-1"]), ("pull", ["r-2"]), ("ack", ["r-3"])]


CALLS = [("pull", []), ("pull", ["r-1"]), ("ack", ["r-1"]), ("pull", []), ("pull", ["r-2"]), ("ack", ["r-3"])]


async def test_ack_of_a_failed_pull_is_sent_by_itself() -> None:
    bridge = Bridge(problem(503))
    assert await handle_three(bridge) == (3, 0)
    assert bridge.calls == CALLS


def test_sync_consumer_sends_the_ack_of_a_failed_pull_by_itself() -> None:
    bridge = Bridge(problem(503))
    assert handle_three_without_asyncio(bridge) == (3, 0)
    assert bridge.calls == CALLS


def test_sync_consumer_sends_an_ack_without_a_result_by_itself() -> None:
    bridge = Bridge(answer({"messages": [leased(2)]}))
    assert handle_three_without_asyncio(bridge) == (3, 0)
    assert bridge.calls[:3] == CALLS[:3]


REFUSED = [*CALLS[:4], ("ack", ["r-2"]), ("pull", []), ("ack", ["r-3"])]


async def test_bridge_that_knows_no_acks_in_pulls_gets_them_by_themselves() -> None:
    bridge = Bridge(problem(422, "invalid-request"))
    assert await handle_three(bridge) == (3, 0)
    assert bridge.calls == REFUSED


def test_sync_consumer_goes_on_with_such_a_bridge() -> None:
    bridge = Bridge(problem(422, "invalid-request"))
    assert handle_three_without_asyncio(bridge) == (3, 0)
    assert bridge.calls == REFUSED


async def test_late_ack_is_reported() -> None:
    bridge = Bridge(answer({"messages": [leased(2)], "acked": [{"id": "o-1", "result": "stale"}]}))
    late: list[Late] = []
    async with bridge.client() as client:
        consumer = client.consumer("orders", concurrency=1, on_late=late.append)

        async def handle(delivery: Delivery) -> None:
            if delivery.id == "o-2":
                consumer.stop()

        await consumer.run(handle)
    assert [(one.message.id, one.why) for one in late] == [("o-1", "stale")]


async def test_ack_never_waits_for_a_pull_in_flight(client: Client, topic: str) -> None:
    """One of two places is free, so a long poll goes on while the handler ends."""
    sent = await client.send(topic, 1)
    async with client.consumer(topic, concurrency=2, poll=timedelta(seconds=60)) as consumer:
        async with await anext(consumer):
            await asyncio.sleep(0)
        assert consumer.counts.acked == 1
    assert (await client.look_up(topic, sent.id)).state == "acked"


async def test_ack_of_a_consumer_without_further_messages_has_its_result_soon(client: Client, topic: str) -> None:
    await client.send(topic, 1)
    async with client.consumer(topic, concurrency=1, poll=timedelta(seconds=60)) as consumer:
        async with await anext(consumer):
            pass
        assert consumer.counts.acked == 1


class Emptied(Bridge):
    """A bridge that has ten messages. Its later pulls have no answer; `emptied` is set when the first of them comes."""

    def __init__(self) -> None:
        super().__init__()
        self.emptied = asyncio.Event()

    async def answer_in_time(self, request: httpx2.Request) -> httpx2.Response:
        response = self.answer(request)
        if self.taken > 10 and self.calls[-1][0] == "pull":
            self.emptied.set()
            await asyncio.Event().wait()
        return response

    def client(self) -> Client:
        return Client("http://bridge.test", transport=httpx2.MockTransport(self.answer_in_time))


async def test_ack_waits_for_no_pull_while_another_message_waits() -> None:
    bridge = Emptied()
    async with (
        asyncio.timeout(60),
        bridge.client() as client,
        client.consumer("orders", concurrency=10) as consumer,
    ):
        for _ in range(9):
            async with await anext(consumer):
                pass
        assert consumer.counts.acked == 9


async def test_ack_of_a_cancelled_task_is_still_sent() -> None:
    bridge = Emptied()
    bridge.taken = 9

    async def handle_one() -> None:
        async with (
            bridge.client() as client,
            client.consumer("orders", concurrency=1) as consumer,
            await anext(consumer),
        ):
            pass

    async with asyncio.timeout(60):
        handling = asyncio.create_task(handle_one())
        await bridge.emptied.wait()
        handling.cancel()
        await asyncio.wait((handling,))
    assert handling.cancelled()
    assert bridge.calls == [("pull", []), ("pull", ["r-10"]), ("ack", ["r-10"])]


async def test_explicit_ack_is_sent_by_itself() -> None:
    bridge = Bridge()
    async with bridge.client() as client, client.consumer("orders", concurrency=1) as consumer:
        delivery = await anext(consumer)
        assert await delivery.ack()
    assert bridge.calls[:2] == [("pull", []), ("ack", ["r-1"])]


async def test_consumer_of_several_topics_acks_with_its_pulls(
    client: Client, topic: str, topics: asyncio.Queue[str]
) -> None:
    urgent = await topics.get()
    for one in (topic, urgent):
        await client.send_many(one, [NewMessage(number) for number in range(5)])
    consumer, handled = client.consumer(urgent, topic, concurrency=1), 0

    async def handle(delivery: Delivery) -> None:
        nonlocal handled
        handled += 1
        if handled == 10:
            consumer.stop()

    await consumer.run(handle)
    assert (consumer.counts.acked, consumer.counts.late) == (10, 0)
    for one in (topic, urgent):
        assert (await client.look_at_topic(one)).counts["acked"] == 5


async def test_pull_tells_what_it_settled(scripted: Scripted) -> None:
    scripted.answers = [answer({"messages": [leased(1)]})]
    async with scripted.client() as client:
        (first,) = pulled = await client.pull("orders")
        assert (pulled.acked, pulled.nacked) == ((), ())
        scripted.answers = [answer({"messages": [], "acked": [{"id": "o-1", "result": "acked"}]})]
        pulled = await client.pull("orders", ack=[first])
    assert len(pulled) == 0
    assert [(one.id, one.result) for one in pulled.acked] == [("o-1", "acked")]
    assert json.loads(scripted.requests[1].content) == {"max": 1, "wait": 0, "ack": ["r-1"]}
