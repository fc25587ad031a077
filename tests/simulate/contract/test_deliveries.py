"""What consumers rely on: prefetch, acknowledgements, redeliveries and their counts (docs/versions.md)."""

from __future__ import annotations

import pytest
from pamqp.commands import Basic, Queue

from tests.simulate.contract.client import Channel, Closed
from tests.simulate.contract.conftest import Node


@pytest.fixture
async def queue(node: Node, channel: Channel) -> str:
    """A quorum queue."""
    name = node.name("q")
    await channel.declare(name, delivery_limit=1_000)
    return name


async def _publish(channel: Channel, queue: str, count: int) -> None:
    for at in range(count):
        await channel.publish(queue, str(at).encode())


# Taking


async def test_consumer_holds_at_most_its_prefetch(node: Node, channel: Channel, queue: str) -> None:
    await _publish(channel, queue, 3)
    consuming = await node.channel()
    await consuming.consume(queue, prefetch=2)

    held = await consuming.messages(2)
    assert await consuming.is_quiet()
    assert (await channel.look(queue)).message_count == 1

    consuming.ack(held[0].tag)
    assert (await consuming.message()).body == b"2"


async def test_get_takes_the_oldest_message_and_counts_the_rest(channel: Channel, queue: str) -> None:
    await _publish(channel, queue, 3)

    found = await channel.get(queue)

    assert found is not None
    assert isinstance(found.how, Basic.GetOk)
    assert (found.body, found.how.message_count, found.redelivered) == (b"0", 2, False)


async def test_get_from_an_empty_queue_is_answered(channel: Channel, queue: str) -> None:
    assert await channel.get(queue) is None


async def test_get_from_a_missing_queue_closes_the_channel(node: Node, channel: Channel) -> None:
    with pytest.raises(Closed, match="NOT_FOUND - no queue"):
        await channel.get(node.name("none"))


async def test_consumers_take_turns(node: Node, channel: Channel, queue: str) -> None:
    one, other = await node.channel(), await node.channel()
    for consuming in (one, other):
        await consuming.consume(queue, prefetch=10)
    await _publish(channel, queue, 10)

    assert len(await one.messages(5)) == len(await other.messages(5))


async def test_single_active_consumer_gets_all_messages_until_it_leaves(node: Node, channel: Channel) -> None:
    queue = node.name("single")
    await channel.declare(queue, single_active_consumer=True)
    first, second = await node.channel(), await node.channel()
    tag = await first.consume(queue)
    await second.consume(queue)
    await _publish(channel, queue, 2)
    for message in await first.messages(2):
        first.ack(message.tag)
    await first.cancel(tag)
    await channel.publish(queue, b"next")

    assert (await second.message()).body == b"next"


async def test_delivery_without_acks_is_settled_at_once(node: Node, channel: Channel, queue: str) -> None:
    await _publish(channel, queue, 2)
    consuming = await node.channel()
    tag = await consuming.consume(queue, no_ack=True)
    await consuming.messages(2)
    await consuming.cancel(tag)
    await consuming.close()

    await channel.publish(queue, b"next")
    await channel.consume(queue)
    assert (await channel.message()).body == b"next"


async def test_exclusive_consumer_of_a_classic_queue_admits_no_other(node: Node, channel: Channel) -> None:
    await channel.declare(node.name("classic"), queue_type="classic")
    await channel.consume(node.name("classic"), exclusive=True)

    with pytest.raises(Closed, match=r"ACCESS_REFUSED - queue .* in exclusive use"):
        await (await node.channel()).consume(node.name("classic"))


async def test_consumer_tag_in_use_ends_the_connection(channel: Channel, queue: str) -> None:
    await channel.consume(queue, tag="used")

    with pytest.raises(Closed, match="NOT_ALLOWED - attempt to reuse consumer tag 'used'") as refused:
        await channel.consume(queue, tag="used")

    assert (refused.value.code, refused.value.connection) == (530, True)


async def test_cancel_stops_deliveries_and_keeps_what_was_delivered(node: Node, channel: Channel, queue: str) -> None:
    """`Consumer.stop` and feeds cancel before they acknowledge."""
    consuming = await node.channel()
    tag = await consuming.consume(queue, prefetch=5)
    await _publish(channel, queue, 2)
    held = await consuming.messages(2)
    await consuming.cancel(tag)
    await channel.publish(queue, b"later")

    consuming.ack(held[1].tag, multiple=True)

    assert await consuming.is_quiet()
    assert (await channel.look(queue)).message_count == 1


async def test_delete_of_a_queue_cancels_its_consumers(node: Node, channel: Channel, queue: str) -> None:
    consuming = await node.channel()
    tag = await consuming.consume(queue)
    await _publish(channel, queue, 1)
    held = await consuming.message()
    await channel.call(Queue.Delete(queue=queue), Queue.DeleteOk)

    assert (await consuming.event(Basic.Cancel)).consumer_tag == tag

    consuming.ack(held.tag)  # of a message that is gone
    assert await consuming.is_quiet()


async def test_priorities_decide_the_order_by_version(node: Node, channel: Channel, queue: str) -> None:
    """3.10 knows none. 4.0 delivers one ordinary message after two urgent ones, and 4.3 all urgent ones first."""
    for body, priority in ((b"o", 1), (b"u", 9)):
        for _ in range(3):
            await channel.publish(queue, body, priority=priority)

    await channel.consume(queue)

    order = b"".join([message.body for message in await channel.messages(6)])
    assert order == {1: b"ooouuu", 2: b"uuouoo", 32: b"uuuooo"}[node.rules.levels]


async def test_global_prefetch_limits_all_consumers_of_a_classic_queue(node: Node, channel: Channel) -> None:
    if node.rules.denies_deprecated:
        pytest.skip("RabbitMQ 4.3 has no global QoS")
    await channel.declare(node.name("classic"), queue_type="classic")
    await _publish(channel, node.name("classic"), 4)
    await channel.call(Basic.Qos(prefetch_count=2, global_=True), Basic.QosOk)
    for _ in range(2):
        await channel.consume(node.name("classic"))

    await channel.messages(2)

    assert (await channel.look(node.name("classic"))).message_count == 2


# Acknowledging


async def test_multiple_ack_covers_all_earlier_tags(node: Node, channel: Channel, queue: str) -> None:
    await _publish(channel, queue, 5)
    client = await node.client()
    consuming = await client.channel()
    await consuming.consume(queue, prefetch=5)
    held = await consuming.messages(5)
    consuming.ack(held[3].tag, multiple=True)
    assert await consuming.is_quiet()
    await consuming.close()

    await channel.consume(queue)
    found = await channel.message()

    assert (found.body, found.redelivered) == (b"4", True)


async def test_multiple_ack_of_tag_zero_covers_all(channel: Channel, queue: str) -> None:
    await _publish(channel, queue, 2)
    for _ in range(2):
        await channel.get(queue)

    channel.ack(0, multiple=True)

    assert await channel.is_quiet()


@pytest.mark.parametrize("multiple", [False, True])
async def test_unknown_delivery_tag_closes_the_channel(channel: Channel, queue: str, multiple: bool) -> None:
    await _publish(channel, queue, 1)
    await channel.get(queue)

    channel.ack(2, multiple=multiple)

    closed = await channel.is_closed()
    assert (closed.code, closed.text) == (406, "PRECONDITION_FAILED - unknown delivery tag 2")


@pytest.mark.parametrize("multiple", [False, True])
async def test_settled_delivery_tag_closes_the_channel(channel: Channel, queue: str, multiple: bool) -> None:
    """Also if earlier tags are unsettled (bridge/broker/client/ack_window.py)."""
    await _publish(channel, queue, 3)
    for _ in range(3):
        await channel.get(queue)
    channel.ack(2)

    channel.ack(2, multiple=multiple)

    assert (await channel.is_closed()).text == "PRECONDITION_FAILED - unknown delivery tag 2"


# Coming again


async def test_unacked_delivery_comes_back_after_the_connection_is_lost_redelivered(
    node: Node, channel: Channel, queue: str
) -> None:
    await _publish(channel, queue, 2)
    client = await node.client()
    consuming = await client.channel()
    await consuming.consume(queue)
    first, second = await consuming.messages(2)
    assert (first.redelivered, second.redelivered) == (False, False)
    client.cut()

    await channel.consume(queue)
    again = await channel.messages(2)

    assert [(message.body, message.redelivered) for message in again] == [(b"0", True), (b"1", True)]
    assert [message.headers["x-delivery-count"] for message in again] == [1, 1]


async def test_unacked_delivery_comes_back_when_its_channel_is_closed(node: Node, channel: Channel, queue: str) -> None:
    await _publish(channel, queue, 1)
    getting = await node.channel()
    await getting.get(queue)
    await getting.close()

    await channel.consume(queue)
    again = await channel.message()

    assert (again.redelivered, again.headers["x-delivery-count"]) == (True, 1)


async def test_rejected_delivery_comes_before_later_messages(channel: Channel, queue: str) -> None:
    await _publish(channel, queue, 3)
    found = await channel.get(queue)
    assert found is not None
    channel.reject(found.tag, requeue=True)
    await channel.consume(queue)

    again = await channel.messages(3)

    assert [message.body for message in again] == [b"0", b"1", b"2"]
    assert [message.redelivered for message in again] == [True, False, False]


async def test_first_delivery_has_the_count_of_its_version(node: Node, channel: Channel, queue: str) -> None:
    """docs/versions.md: 3.10 sets 0, and only on `basic.get`."""
    await _publish(channel, queue, 2)
    got = await channel.get(queue)
    await channel.consume(queue)
    delivered = await channel.message()

    assert got is not None
    assert got.headers.get("x-delivery-count") == (0 if node.rules.zero_on_get else None)
    assert "x-delivery-count" not in delivered.headers


@pytest.mark.parametrize("how", ["nack", "reject"])
async def test_returned_delivery_is_counted_by_its_version(node: Node, channel: Channel, queue: str, how: str) -> None:
    """On 4.3 a nack is no failed delivery."""
    await _publish(channel, queue, 1)
    await channel.consume(queue)
    for _ in range(3):
        message = await channel.message()
        if how == "nack":
            channel.nack(message.tag, requeue=True)
        else:
            channel.reject(message.tag, requeue=True)

    again = await channel.message()

    counts = how == "reject" or node.rules.nack_counts
    assert again.headers.get("x-delivery-count") == (3 if counts else None)
    assert again.headers.get("x-acquired-count") == (3 if node.rules.counts_returns else None)
    assert again.redelivered


async def test_delivery_limit_ends_returns(node: Node, channel: Channel) -> None:
    await channel.declare(node.name("due"))
    await channel.declare(
        node.name("ready"), delivery_limit=2, dead_letter_exchange="", dead_letter_routing_key=node.name("due")
    )
    due = await node.channel()
    await due.consume(node.name("due"))
    await channel.publish(node.name("ready"), b"poison")
    await channel.consume(node.name("ready"))

    for _ in range(3):
        channel.reject((await channel.message()).tag, requeue=True)

    letter = await due.message()
    assert (letter.body, letter.deaths[0]["reason"]) == (b"poison", "delivery_limit")
    assert await channel.is_quiet()


@pytest.mark.parametrize(
    ("returns", "on_4_0", "on_4_3"),
    [
        ("reject reject, reject", 1, 3),
        ("reject reject, nack", 1, 2),
        ("nack nack, reject", 1, 1),
        ("nack nack, nack", 1, None),
        ("reject reject reject,", None, 3),
    ],
)
async def test_dead_letter_shows_the_failed_deliveries_of_its_version(
    node: Node, channel: Channel, returns: str, on_4_0: int | None, on_4_3: int | None
) -> None:
    """On 4.0 a rejected one shows 1; on 4.3 the failed deliveries count on in the next queue. 3.10 forgets them.

    `returns`: how the message is requeued, and then how it is refused. Without the latter it reaches its limit.
    """
    requeued, _, refused = returns.partition(",")
    await channel.declare(
        node.name("ready"),
        delivery_limit=20 if refused else 2,
        dead_letter_exchange="",
        dead_letter_routing_key=node.name("due"),
        dead_letter_strategy="at-least-once",
        overflow="reject-publish",
    )
    due = await node.channel()
    await due.declare(node.name("due"))
    await due.consume(node.name("due"))
    await channel.publish(node.name("ready"))
    await channel.consume(node.name("ready"))

    for how, requeue in [*((how, True) for how in requeued.split()), *((how, False) for how in refused.split())]:
        tag = (await channel.message()).tag
        if how == "nack":
            channel.nack(tag, requeue=requeue)
        else:
            channel.reject(tag, requeue=requeue)

    letter = await due.message()
    expected = {"3.10.8": None, "4.0.5": on_4_0, "4.3.6": on_4_3}[node.rules.number]
    assert letter.headers.get("x-delivery-count") == expected
    assert letter.headers.get("x-acquired-count") == (expected if node.rules.counts_returns else None)
    assert letter.redelivered == (expected is not None)
    due.reject(letter.tag, requeue=True)
    again = (await due.message()).headers["x-delivery-count"]
    assert again == (1 if not node.rules.carries_count else (expected or 0) + 1)


async def test_published_delivery_count_is_passed_on_and_then_replaced(
    node: Node, channel: Channel, queue: str
) -> None:
    """So the bridge never publishes one (topology/deaths.py)."""
    await channel.publish(queue, headers={"x-delivery-count": 5})
    await channel.consume(queue)
    first = await channel.message()
    channel.reject(first.tag, requeue=True)

    again = await channel.message()

    assert (first.headers["x-delivery-count"], first.redelivered) == (5, False)
    assert again.headers["x-delivery-count"] == 1


async def test_nacks_of_4_3_reach_no_limit(node: Node, channel: Channel) -> None:
    await channel.declare(node.name("due"))
    await channel.declare(
        node.name("ready"), delivery_limit=2, dead_letter_exchange="", dead_letter_routing_key=node.name("due")
    )
    await channel.publish(node.name("ready"))
    await channel.consume(node.name("ready"))
    for _ in range(3):
        channel.nack((await channel.message()).tag, requeue=True)

    if node.rules.nack_counts:
        due = await node.channel()
        await due.consume(node.name("due"))
        assert (await due.message()).deaths[0]["reason"] == "delivery_limit"
    else:
        assert (await channel.message()).redelivered


async def test_classic_queue_redelivers_at_the_former_place(node: Node, channel: Channel) -> None:
    await channel.declare(node.name("classic"), queue_type="classic")
    await _publish(channel, node.name("classic"), 3)
    found = [await channel.get(node.name("classic")) for _ in range(2)]
    for message in reversed(found):
        assert message is not None
        channel.nack(message.tag, requeue=True)
    await channel.consume(node.name("classic"))

    again = await channel.messages(3)

    assert [(message.body, message.redelivered) for message in again] == [
        (b"0", True),
        (b"1", True),
        (b"2", False),
    ]
    assert all("x-delivery-count" not in message.headers for message in again)
