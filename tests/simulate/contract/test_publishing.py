"""What the publisher relies on: returns, confirms, refusals (bridge/broker/client/publisher.py, confirms.py)."""

from __future__ import annotations

from struct import pack
from typing import Any

import pytest
from pamqp.commands import Basic

from tests.simulate.contract.client import Channel, Message
from tests.simulate.contract.conftest import Node


async def _answers(channel: Channel, count: int) -> tuple[set[int], set[int]]:
    """Waits until this many publishes are answered. Returns the acked and the refused tags."""
    acked: set[int] = set()
    refused: set[int] = set()
    while len(acked) + len(refused) < count:
        answer = await channel.any_event()
        assert isinstance(answer, Basic.Ack | Basic.Nack), answer
        tag = answer.delivery_tag or 0
        unanswered = {other for other in range(1, tag + 1) if other not in acked | refused}
        assert tag in unanswered, "a publish was answered twice"
        (acked if isinstance(answer, Basic.Ack) else refused).update(unanswered if answer.multiple else {tag})
    return acked, refused


async def test_mandatory_return_comes_before_its_confirm(node: Node, channel: Channel) -> None:
    tag = channel.write(node.name("none"), b"body", mandatory=True, message_id="m")

    returned, confirm = await channel.message(), await channel.event(Basic.Ack)

    assert isinstance(returned.how, Basic.Return)
    assert (returned.how.reply_code, returned.how.reply_text) == (312, "NO_ROUTE")
    assert (returned.key, returned.body, returned.properties.message_id) == (node.name("none"), b"body", "m")
    assert confirm.delivery_tag == tag


async def test_unroutable_publish_is_confirmed(node: Node, channel: Channel) -> None:
    await channel.publish(node.name("none"))


async def test_burst_is_confirmed_once_each(node: Node, channel: Channel) -> None:
    queues = [node.name(f"q{at}") for at in range(5)]
    for queue in queues:
        await channel.declare(queue)

    for at in range(200):
        channel.write(queues[at % 5], str(at).encode())

    assert await _answers(channel, 200) == ({*range(1, 201)}, set())
    assert [(await channel.look(queue)).message_count for queue in queues] == [40] * 5


async def test_only_the_unroutable_messages_of_a_burst_are_returned(node: Node, channel: Channel) -> None:
    await channel.declare(node.name("q"))
    for at in range(6):
        channel.write(node.name("q" if at % 2 else "none"), mandatory=True, message_id=str(at))

    returned, confirmed = [], 0
    while confirmed < 6:
        event = await channel.any_event()
        if isinstance(event, Message):
            returned.append(event.properties.message_id)
        elif isinstance(event, Basic.Ack):
            confirmed = max(confirmed, event.delivery_tag or 0) if event.multiple else confirmed + 1

    assert returned == ["0", "2", "4"]


async def test_rejected_publish_is_nacked(node: Node, channel: Channel) -> None:
    """`x-overflow: reject-publish`. A quorum queue takes one more message than its limit."""
    await channel.declare(node.name("q"), max_length=2, overflow="reject-publish")

    answers = []
    for _ in range(6):
        channel.write(node.name("q"))
        answers.append(await channel.any_event())

    assert isinstance(answers[0], Basic.Ack)
    assert isinstance(answers[1], Basic.Ack)
    assert isinstance(answers[-1], Basic.Nack)
    depth = (await channel.look(node.name("q"))).message_count
    assert depth == sum(isinstance(answer, Basic.Ack) for answer in answers)


async def test_full_queue_drops_its_oldest_message(node: Node, channel: Channel) -> None:
    """As the probe queues do (topology/plan.py)."""
    await channel.declare(node.name("q"), max_length=1, overflow="drop-head")
    await channel.publish(node.name("q"), b"former")
    await channel.publish(node.name("q"), b"latest")

    found = await channel.get(node.name("q"))

    assert found is not None
    assert found.body == b"latest"
    assert await channel.get(node.name("q")) is None


@pytest.mark.parametrize("size", [0, 1, 131_064, 131_065, 400_000])
async def test_body_comes_as_it_was_sent(node: Node, channel: Channel, size: int) -> None:
    body = bytes(at % 251 for at in range(size))
    await channel.declare(node.name("q"))
    await channel.publish(node.name("q"), body)

    found = await channel.get(node.name("q"))

    assert found is not None
    assert found.body == body


async def test_headers_keep_their_amqp_types(node: Node, channel: Channel) -> None:
    """docs/topology.md: each header comes with its AMQP type."""
    values = {
        b"octet": b"b" + pack(">b", -3),
        b"short": b"s" + pack(">h", -300),
        b"int": b"I" + pack(">i", 70_000),
        b"long": b"l" + pack(">q", 5),
        b"double": b"d" + pack(">d", 0.5),
        b"bool": b"t\x01",
        b"none": b"V",
        b"time": b"T" + pack(">Q", 1_700_000_000),
        b"text": b"S" + pack(">I", 2) + b"hi",
        b"bytes": b"x" + pack(">I", 2) + b"\xff\x00",
    }
    await channel.declare(node.name("q"))
    table = b"".join(bytes([len(name)]) + name + value for name, value in values.items())
    payload = pack(">HHQH", 60, 0, 0, 1 << 13) + pack(">I", len(table)) + table
    channel.write_raw(node.name("q"), payload)
    await channel.event(Basic.Ack)

    found = await channel.get(node.name("q"))

    assert found is not None
    for name, value in values.items():
        assert bytes([len(name)]) + name + value in found.raw


async def test_properties_come_as_they_were_sent(node: Node, channel: Channel) -> None:
    sent: dict[str, Any] = {
        "content_type": "text/plain",
        "content_encoding": "gzip",
        "priority": 3,
        "correlation_id": "c",
        "reply_to": "r",
        "expiration": "60000",
        "message_id": "m",
        "message_type": "t",
        "user_id": "guest",
        "app_id": "a",
    }
    await channel.declare(node.name("q"))
    await channel.publish(node.name("q"), **sent)

    found = await channel.get(node.name("q"))

    assert found is not None
    assert {name: getattr(found.properties, name) for name in sent} == sent


async def test_foreign_user_id_is_refused(node: Node, channel: Channel) -> None:
    channel.write(node.name("q"), user_id="somebody")

    closed = await channel.is_closed()

    assert closed.code == 406
    assert "user_id property set to 'somebody' but authenticated user was 'guest'" in closed.text


async def test_expiration_that_is_no_number_is_refused(node: Node, channel: Channel) -> None:
    channel.write(node.name("q"), expiration="soon")

    closed = await channel.is_closed()

    assert closed.code == 406
    assert "invalid expiration" in closed.text


async def test_publishes_behind_a_refused_one_are_not_answered(node: Node, channel: Channel) -> None:
    await channel.declare(node.name("q"))
    channel.write("", exchange=node.name("none"))
    channel.write(node.name("q"), b"unread")

    assert (await channel.is_closed()).code == 404
    other = await node.channel()
    assert (await other.look(node.name("q"))).message_count == 0
