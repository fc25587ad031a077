"""Tests that deliveries and confirms are taken out of the byte stream, and that aiormq gets all other frames
unchanged."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import pairwise
from types import SimpleNamespace
from typing import Any, cast

import pytest
from aiormq import Channel
from aiormq.connection import FrameReceiver
from aiormq.exceptions import AMQPConnectionError
from hypothesis import given
from hypothesis import strategies as st
from pamqp import commands as spec
from pamqp.body import ContentBody
from pamqp.frame import FrameTypes, marshal
from pamqp.header import ContentHeader
from pamqp.heartbeat import Heartbeat

from bridge.broker.client.confirms import Confirms
from bridge.broker.client.delivery import Delivery
from bridge.broker.client.gets import Gets
from bridge.broker.client.reader import Reader, Received
from bridge.model.errors import BrokerUnavailable, Unroutable

FRAME_MAX = 16
CHANNEL = cast(Channel, object())


def delivery(number: int, consumer: str, tag: int, body: bytes) -> list[bytes]:
    parts: list[FrameTypes] = [
        spec.Basic.Deliver(consumer_tag=consumer, delivery_tag=tag, exchange="delay.due", routing_key=f"key-{tag}"),
        ContentHeader(properties=spec.Basic.Properties(message_id=f"m-{tag}"), body_size=len(body)),
        *(ContentBody(body[start : start + FRAME_MAX]) for start in range(0, len(body), FRAME_MAX)),
    ]
    return [marshal(part, number) for part in parts]


class World:
    """Feeds bytes to a reader with one consumer, `ours`, and keeps what arrives at it and at aiormq."""

    def __init__(self) -> None:
        self.stream = asyncio.StreamReader()
        self.taken: list[Delivery] = []
        self.consumers: dict[bytes, tuple[Channel, Received]] = {b"ours": (CHANNEL, self.taken.append)}
        self.gets: dict[int, Gets] = {}
        self.confirms: dict[int, Confirms] = {}
        reader = Reader(self.stream, consumers=self.consumers, gets=self.gets, confirms=self.confirms)
        self.receiver = FrameReceiver(cast(asyncio.StreamReader, reader))

    async def passed_on(self, *chunks: bytes) -> list[tuple[int, str]]:
        """Returns channel and name of each frame that aiormq gets, without the heartbeats of the reader."""
        found: list[tuple[int, str]] = []

        async def receive() -> None:
            async for _, number, frame in self.receiver:
                if not isinstance(frame, Heartbeat):
                    found.append((number, frame.name))

        receiving = asyncio.create_task(receive())
        for chunk in chunks:
            self.stream.feed_data(chunk)
            await asyncio.sleep(0)
        self.stream.feed_eof()
        await asyncio.wait([receiving])
        assert receiving.exception() is None or isinstance(receiving.exception(), AMQPConnectionError)
        return found

    @property
    def received(self) -> list[tuple[int, str, str | None, bytes]]:
        return [(one.delivery_tag, one.routing_key, one.properties.message_id, one.body) for one in self.taken]


def cut(data: bytes, at: list[int]) -> Iterator[bytes]:
    places = [0, *sorted(place % (len(data) + 1) for place in at), len(data)]
    return (data[start:end] for start, end in pairwise(places))


BODIES = [b"", b"1", b"x" * FRAME_MAX, b"y" * (FRAME_MAX + 1), b"z" * 100]
OTHERS: list[tuple[int, FrameTypes]] = [
    (0, Heartbeat()),
    (1, spec.Basic.ConsumeOk(consumer_tag="ours")),
    (3, spec.Basic.Ack(delivery_tag=7, multiple=True)),
]


@given(st.lists(st.integers(0, 100_000), max_size=8))
async def test_deliveries_are_complete_and_in_order_however_bytes_are_split(places: list[int]) -> None:
    world = World()
    frames: list[bytes] = []
    for at, body in enumerate(BODIES):
        frames += delivery(1, "ours", at, body)
        frames += [marshal(frame, number) for number, frame in OTHERS]
        frames += delivery(2, "aiormq's", at, body)

    found = await world.passed_on(*cut(b"".join(frames), places))

    assert world.received == [(at, f"key-{at}", f"m-{at}", body) for at, body in enumerate(BODIES)]
    own = [(number, frame.name) for number, frame in OTHERS if not isinstance(frame, Heartbeat)]
    theirs = [(2, "Basic.Deliver"), (2, "ContentHeader")]
    assert found == [
        one for body in BODIES for one in (*own, *theirs, *[(2, "ContentBody")] * len(delivery(0, "", 0, body)[2:]))
    ]


@given(st.lists(st.integers(0, 100_000), max_size=8))
async def test_answers_to_gets_are_taken_out_however_bytes_are_split(places: list[int]) -> None:
    world = World()
    got: list[tuple[bytes, str, int] | None] = []

    def answered(delivery: Delivery | None, behind: int) -> None:
        got.append(None if delivery is None else (delivery.body, delivery.routing_key, behind))

    world.gets[1] = cast(Gets, SimpleNamespace(channel=CHANNEL, answered=answered))
    frames: list[bytes] = []
    for at, body in enumerate(BODIES):
        _, *content = delivery(1, "", at, body)
        ok = spec.Basic.GetOk(delivery_tag=at, exchange="delay.ready", routing_key=f"key-{at}", message_count=at)
        frames += [marshal(ok, 1), *content, marshal(spec.Basic.GetEmpty(), 1), marshal(spec.Basic.GetEmpty(), 2)]

    found = await world.passed_on(*cut(b"".join(frames), places))

    assert got == [one for at, body in enumerate(BODIES) for one in ((body, f"key-{at}", at), None)]
    assert found == [(2, "Basic.GetEmpty")] * len(BODIES)


@pytest.mark.parametrize("end", [spec.Channel.Close(404, "NOT_FOUND", 0, 0), spec.Channel.CloseOk()])
async def test_closed_channel_is_forgotten_with_its_gets_and_confirms(end: FrameTypes) -> None:
    world = World()
    for number in (1, 2):
        world.gets[number], world.confirms[number] = cast(Gets, object()), Confirms()

    assert await world.passed_on(marshal(end, 1)) == [(1, end.name)]

    assert (list(world.gets), list(world.confirms)) == ([2], [2])


async def test_interleaved_deliveries_of_two_channels_stay_apart() -> None:
    world = World()
    first, second = delivery(1, "ours", 1, b"a" * 40), delivery(2, "ours", 2, b"b" * 40)

    await world.passed_on(*(frame for pair in zip(first, second, strict=True) for frame in pair))

    assert [(tag, body) for tag, _, _, body in world.received] == [(1, b"a" * 40), (2, b"b" * 40)]


async def test_delivery_is_ignored_after_forget_even_if_it_had_begun() -> None:
    world = World()
    begun = delivery(1, "ours", 1, b"a" * 40)

    def forget(_: Delivery) -> None:
        del world.consumers[b"ours"]

    world.consumers[b"other"] = (CHANNEL, forget)

    found = await world.passed_on(*begun[:2], *delivery(2, "other", 1, b""), *begun[2:], *delivery(1, "ours", 2, b""))

    assert world.taken == []
    assert found == [(1, "Basic.Deliver"), (1, "ContentHeader")]


async def test_failing_consumer_does_not_end_the_connection() -> None:
    world = World()
    failures: list[dict[str, Any]] = []

    def fail(_: Delivery) -> None:
        raise LookupError("of a consumer")

    world.consumers[b"failing"] = (CHANNEL, fail)
    loop = asyncio.get_running_loop()
    before = loop.get_exception_handler()
    loop.set_exception_handler(lambda _, failure: failures.append(failure))
    try:
        await world.passed_on(b"".join([*delivery(1, "failing", 1, b"x"), *delivery(1, "ours", 2, b"x")]))
    finally:
        loop.set_exception_handler(before)

    assert [one.delivery_tag for one in world.taken] == [2]
    assert [str(failure["exception"]) for failure in failures] == ["of a consumer"]


def confirmed(*answers: spec.Basic.Ack | spec.Basic.Nack) -> bytes:
    return b"".join(marshal(frame, 5) for frame in answers)


def returned(message_id: str) -> bytes:
    frame = spec.Basic.Return(reply_code=312, reply_text="NO_ROUTE", exchange="delay.ready", routing_key="orders")
    header = ContentHeader(properties=spec.Basic.Properties(message_id=message_id), body_size=3)
    return b"".join(marshal(part, 5) for part in (frame, header, ContentBody(b"abc")))


async def test_confirms_go_to_their_publisher_and_others_to_aiormq() -> None:
    world = World()
    confirms = world.confirms[5] = Confirms()
    all_answered = confirms.begin(["a", "b", "c", "d"])
    bytes_of_another = marshal(spec.Basic.Ack(delivery_tag=1), 6)

    found = await world.passed_on(
        returned("b"), confirmed(spec.Basic.Ack(2, multiple=True), spec.Basic.Nack(4)), bytes_of_another
    )

    assert found == [(6, "Basic.Ack")]
    assert not all_answered.done()
    assert [str(error) for error in confirms.errors(BrokerUnavailable("away"))] == [
        "None",
        "RabbitMQ returned the message, no queue takes it: NO_ROUTE",
        "away",
        "RabbitMQ refused the message with a nack",
    ]
    assert [type(error) for error in confirms.errors()] == [type(None), Unroutable, type(None), BrokerUnavailable]


async def test_aiormq_gets_heartbeats_while_only_deliveries_arrive() -> None:
    world = World()
    world.stream.feed_data(b"".join(delivery(1, "ours", 1, b"x")))

    assert isinstance((await world.receiver.get_frame())[2], Heartbeat)
    assert len(world.taken) == 1


@pytest.mark.parametrize("end", [b"\x00", b"\xcd"])
async def test_frame_without_its_end_byte_goes_to_aiormq(end: bytes) -> None:
    world = World()
    frames = delivery(1, "ours", 1, b"x")
    world.stream.feed_data(b"".join([*frames[:2], frames[2][:-1] + end]))

    with pytest.raises(Exception, match="Last byte"):
        await world.receiver.get_frame()
    assert world.taken == []


async def test_header_of_another_protocol_goes_to_aiormq() -> None:
    world = World()
    world.stream.feed_data(b"AMQP\x00\x01\x00\x00")

    with pytest.raises(Exception, match="Unexpected AMQP protocol header"):
        await world.receiver.get_frame()
