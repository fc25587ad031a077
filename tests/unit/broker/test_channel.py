"""Tests what a channel takes out of RabbitMQ's bytes, and what it writes."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from aio_pika.exceptions import ChannelNotFoundEntity, ChannelPreconditionFailed
from hypothesis import given
from hypothesis import strategies as st
from pamqp import commands as spec
from pamqp.commands import Basic, Queue
from pamqp.frame import marshal

from bridge.broker.client.channel import Channel, open_channel
from bridge.broker.client.delivery import Delivery, acknowledge, requeue
from bridge.broker.client.gets import GetNotRead
from bridge.model.errors import BrokerUnavailable, Unroutable
from tests.unit.broker.wire import BODY_MAX, Wire, content, cut, delivery

BODIES = [b"", b"1", b"x" * BODY_MAX, b"y" * (BODY_MAX + 1), b"z" * 100]
CLOSE = spec.Channel.Close(reply_code=404, reply_text="NOT_FOUND - no queue 'q'", class_id=50, method_id=10)
OK = spec.Channel.CloseOk()


async def consumed(wire: Wire, channel: Channel, tag: str = "ours") -> list[Delivery]:
    """Consumes on the channel. Returns the list to which its deliveries are appended."""
    taken: list[Delivery] = []
    await answered(wire, channel, channel.consume("q", taken.append, tag), Basic.ConsumeOk(consumer_tag=tag))
    return taken


async def answered(wire: Wire, channel: Channel, call: Any, *answers: Any) -> Any:
    """Awaits a call that RabbitMQ answers so."""
    calling = asyncio.ensure_future(call)
    for answer in answers:
        await asyncio.sleep(0)
        wire.say(channel.number, answer)
    return await calling


def shown(deliveries: list[Delivery]) -> list[tuple[int, str, str | None, bytes]]:
    return [(one.delivery_tag, one.routing_key, one.properties.message_id, one.body) for one in deliveries]


@given(st.lists(st.integers(0, 100_000), max_size=8))
async def test_deliveries_are_complete_and_in_order_however_bytes_are_split(places: list[int]) -> None:
    wire = Wire()
    first, second = wire.channel(), wire.channel()
    taken, others = await consumed(wire, first), await consumed(wire, second)
    frames: list[bytes] = []
    for tag, body in enumerate(BODIES, start=1):
        ours, theirs = delivery(1, "ours", tag, body), delivery(2, "ours", tag, body)
        frames += [part for pair in zip(ours, theirs, strict=True) for part in pair]
        frames.append(marshal(Basic.Ack(delivery_tag=tag), 2))

    wire.feed(*cut(b"".join(frames), places))

    assert shown(taken) == shown(others) == [(tag, f"key-{tag}", f"m-{tag}", BODIES[tag - 1]) for tag in range(1, 6)]


@given(st.lists(st.integers(0, 100_000), max_size=8))
async def test_answers_to_gets_reach_their_callers_in_order_however_bytes_are_split(places: list[int]) -> None:
    wire = Wire()
    channel = wire.channel()
    gets = [asyncio.create_task(channel.get("q")) for _ in range(2 * len(BODIES))]
    await asyncio.sleep(0)
    assert wire.names() == [(1, "Basic.Get")] * len(gets)
    frames: list[bytes] = []
    for tag, body in enumerate(BODIES, start=1):
        ok = Basic.GetOk(delivery_tag=tag, exchange="delay.ready", routing_key=f"key-{tag}", message_count=tag)
        frames += [marshal(ok, 1), *content(1, f"m-{tag}", body), marshal(Basic.GetEmpty(), 1)]

    wire.feed(*cut(b"".join(frames), places))

    found = await asyncio.gather(*gets)
    assert [one for one in found if one[0] is None] == [(None, 0)] * len(BODIES)
    got = [(one.delivery_tag, one.body, behind) for one, behind in found if one is not None]
    assert got == [(tag, body, tag) for tag, body in enumerate(BODIES, start=1)]


async def test_delivery_is_ignored_after_forget_even_if_it_had_begun() -> None:
    wire = Wire()
    channel = wire.channel()
    taken = await consumed(wire, channel)
    begun = delivery(1, "ours", 1, b"a" * 40)

    wire.feed(*begun[:2])
    channel.forget("ours")
    wire.feed(*begun[2:], *delivery(1, "ours", 2, b""))

    assert taken == []
    assert channel.acknowledger.held == 0


async def test_failing_consumer_ends_neither_connection_nor_channel() -> None:
    wire = Wire()
    channel = wire.channel()
    taken, failures = await consumed(wire, channel), []

    def fail(*_: Delivery) -> None:
        raise LookupError("of a consumer")

    call = channel.consume("q", fail, "failing", fail)
    await answered(wire, channel, call, Basic.ConsumeOk(consumer_tag="failing"))
    loop = asyncio.get_running_loop()
    before = loop.get_exception_handler()
    loop.set_exception_handler(lambda _, failure: failures.append(failure))
    try:
        wire.feed(*delivery(1, "failing", 1, b"x"))
        wire.say(1, Basic.Cancel("failing", nowait=True))
        wire.feed(*delivery(1, "failing", 2, b"of one that has gone"), *delivery(1, "ours", 3, b"x"))
    finally:
        loop.set_exception_handler(before)

    assert shown(taken) == [(3, "key-3", "m-3", b"x")]
    assert [str(failure["exception"]) for failure in failures] == ["of a consumer"] * 2


def returned(message_id: str) -> list[bytes]:
    method = Basic.Return(reply_code=312, reply_text="NO_ROUTE", exchange="delay.ready", routing_key="orders")
    return [marshal(method, 1), *content(1, message_id, b"abc")]


@given(st.lists(st.integers(0, 1_000), max_size=8))
async def test_confirms_and_returns_are_those_of_their_burst(places: list[int]) -> None:
    wire = Wire()
    confirms = wire.channel().confirms
    all_answered = confirms.begin(["a", "b", "c", "d"])
    frames = [*returned("b"), marshal(Basic.Ack(2, multiple=True), 1), marshal(Basic.Nack(4), 1)]

    wire.feed(*cut(b"".join(frames), places))

    assert not all_answered.done()
    errors = confirms.errors(BrokerUnavailable("away"))
    assert [str(error) for error in errors] == [
        "None",
        "RabbitMQ returned the message, no queue takes it: NO_ROUTE",
        "away",
        "RabbitMQ refused the message with a nack",
    ]
    assert [type(error) for error in confirms.errors()] == [type(None), Unroutable, type(None), BrokerUnavailable]


async def test_acks_and_requeues_are_written_for_the_deliveries_of_their_channel() -> None:
    wire = Wire()
    channel = wire.channel()
    taken = await consumed(wire, channel)
    wire.take()
    for tag in range(1, 6):
        wire.feed(*delivery(1, "ours", tag, b""))

    acknowledge(taken[:2])
    acknowledge(taken[3:4])
    requeue(taken[2])
    acknowledge(taken[4:])

    written = [(frame.name, frame.delivery_tag, getattr(frame, "multiple", None)) for _, frame in wire.take()]
    assert written == [
        ("Basic.Ack", 2, True),
        ("Basic.Ack", 4, False),
        ("Basic.Reject", 3, None),
        ("Basic.Ack", 5, True),
    ]


async def test_rabbitmq_that_closes_a_channel_refuses_its_calls_and_frees_its_number() -> None:
    wire = Wire()
    channel = wire.channel()
    depth = asyncio.create_task(channel.depth("q"))
    await asyncio.sleep(0)
    wire.take()

    wire.say(1, CLOSE)

    with pytest.raises(ChannelNotFoundEntity, match="no queue 'q'"):
        await depth
    assert (channel.is_open, channel.ended.done(), wire.names()) == (False, True, [(1, "Channel.CloseOk")])
    with pytest.raises(BrokerUnavailable, match="no queue 'q'"):
        await channel.depth("q")
    acknowledge([])
    assert wire.names() == []
    assert wire.channel().number == 1


async def test_only_the_get_from_the_missing_queue_is_told_so() -> None:
    wire = Wire()
    channel = wire.channel()
    gets = [asyncio.create_task(channel.get(queue)) for queue in ("there", "missing", "there", "missing")]
    await asyncio.sleep(0)

    wire.say(1, Basic.GetEmpty(), CLOSE)

    answers = await asyncio.gather(*gets, return_exceptions=True)
    assert answers[0] == (None, 0)
    assert [type(answer) for answer in answers[1:]] == [ChannelNotFoundEntity, GetNotRead, GetNotRead]


async def test_number_is_used_again_only_once_both_sides_have_closed() -> None:
    wire = Wire()
    channel = wire.channel()
    closing = asyncio.create_task(channel.close())
    again = asyncio.create_task(channel.close())
    await asyncio.sleep(0)
    assert wire.names() == [(1, "Channel.Close")]

    wire.say(1, CLOSE)  # RabbitMQ closes the channel at the same time, and still answers the Close

    assert wire.names() == [(1, "Channel.CloseOk")]
    assert wire.channel().number == 2
    assert not closing.done()
    wire.say(1, OK)
    await asyncio.gather(closing, again)
    assert wire.channel().number == 1


@pytest.mark.parametrize("lost", [False, True])
async def test_nothing_is_written_to_a_channel_that_is_closed_or_being_closed(lost: bool) -> None:
    wire = Wire()
    channel = wire.channel()
    taken = await consumed(wire, channel)
    wire.feed(*delivery(1, "ours", 1, b""))
    if lost:
        wire.transport.connection_lost(None)
    else:
        closing = asyncio.create_task(channel.close())
        await asyncio.sleep(0)
    wire.take()

    with pytest.raises(BrokerUnavailable):
        await channel.get("a")
    with pytest.raises(BrokerUnavailable):
        channel.acknowledger.ack([1])
    acknowledge(taken)
    requeue(taken[0])
    assert wire.take() == []
    if not lost:
        wire.say(1, OK)
        await closing


async def test_channel_of_a_call_whose_caller_is_gone_closes() -> None:
    wire = Wire()
    opening = asyncio.create_task(open_channel(wire.transport, confirms=True))
    await asyncio.sleep(0)
    opening.cancel()
    await asyncio.wait([opening])

    assert wire.names() == [(1, "Channel.Open"), (1, "Channel.Close")]
    assert wire.channel().number == 2
    wire.say(1, spec.Channel.OpenOk(), OK)
    assert wire.channel().number == 1


@pytest.mark.parametrize("answered_first", [True, False])
async def test_message_whose_caller_gave_up_is_requeued(answered_first: bool) -> None:
    wire = Wire()
    channel = wire.channel()
    first, second = (asyncio.create_task(channel.get("q")) for _ in range(2))
    await asyncio.sleep(0)
    wire.take()
    frames = [
        b"".join([marshal(Basic.GetOk(tag, False, "", "q", 0), 1), *content(1, f"m-{tag}", b"")]) for tag in (1, 2)
    ]
    if answered_first:
        wire.feed(frames[0])
    first.cancel()
    await asyncio.wait([first])
    if not answered_first:
        wire.feed(frames[0])
    wire.feed(frames[1])

    found, _ = await second
    assert first.cancelled()
    assert found is not None
    assert found.delivery_tag == 2
    assert [(frame.name, frame.delivery_tag) for _, frame in wire.take()] == [("Basic.Reject", 1)]


@pytest.mark.parametrize("awaits", [True, False])
async def test_consumer_that_rabbitmq_cancels_is_told_once(awaits: bool) -> None:
    wire = Wire()
    wire.transport.server_properties = {"capabilities": {"accept_consumer_cancel_ok": awaits}}
    channel = wire.channel()
    told: list[str] = []
    call = channel.consume("q", lambda _: None, "ours", lambda: told.append("cancelled"))
    await answered(wire, channel, call, Basic.ConsumeOk(consumer_tag="ours"))
    wire.take()

    wire.say(1, Basic.Cancel("ours", nowait=True), Basic.Cancel("theirs", nowait=True))
    await channel.cancel("ours")

    assert (told, wire.names()) == (["cancelled"], [(1, "Basic.CancelOk")] * awaits)


async def test_answers_reach_their_calls_in_order_between_other_frames() -> None:
    wire = Wire()
    channel = wire.channel()
    taken = await consumed(wire, channel)
    depths = [asyncio.create_task(channel.depth(queue)) for queue in ("a", "b")]
    await asyncio.sleep(0)

    wire.say(1, Queue.DeclareOk("a", 5, 0))
    wire.feed(*delivery(1, "ours", 1, b""))
    wire.say(1, Queue.DeclareOk("b", 7, 0))

    assert await asyncio.gather(*depths) == [5, 7]
    assert len(taken) == 1


async def test_refusal_whose_text_is_no_utf_8_ends_its_channel_alone() -> None:
    wire = Wire()
    channel, other = wire.channel(), wire.channel()
    close = marshal(spec.Channel.Close(404, "NOT_FOUND - no exchange '?'", 60, 40), 1)

    wire.feed(close.replace(b"?", "ä".encode("latin-1")))

    assert isinstance(channel.error, ChannelNotFoundEntity)
    assert "no exchange" in str(channel.error)
    assert other.is_open
    assert wire.names() == [(1, "Channel.CloseOk")]


async def test_all_messages_up_to_a_nack_are_refused() -> None:
    wire = Wire()
    confirms = wire.channel().confirms
    all_answered = confirms.begin(["a", "b", "c"])

    wire.say(1, Basic.Ack(3), Basic.Nack(2, multiple=True))

    assert all_answered.done()
    assert [error is None for error in confirms.errors()] == [False, False, True]


async def test_refusal_of_a_publish_names_what_rabbitmq_says() -> None:
    wire = Wire()
    channel = wire.channel()

    wire.say(1, spec.Channel.Close(406, "PRECONDITION_FAILED - too large", 60, 40))

    assert isinstance(channel.error, ChannelPreconditionFailed)
    assert "too large" in str(channel.error)
