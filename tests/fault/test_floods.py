"""A flood of one topic at the checkpoint, and a message of another topic behind it."""

from __future__ import annotations

import asyncio

import aio_pika
import pytest

from bridge.broker.parcels import MOST_COPIES
from bridge.checkpoint.loop import _AT_ONCE
from bridge.message import Envelope
from bridge.service.service import Service
from bridge.service.values import Draft
from tests.fault.api import now_ms
from tests.fault.inside import Gate, running
from tests.fault.stage import Stage

BATCH = 50
PATIENCE_S = 60.0


@pytest.mark.parametrize(
    ("parcels", "flood", "most_in_a_batch"), [(False, 2_000, BATCH), (True, 6_000, BATCH + MOST_COPIES - 1)]
)
async def test_a_message_overtakes_another_topics_flood_that_was_read_before_it(
    stage: Stage, parcels: bool, flood: int, most_in_a_batch: int
) -> None:
    async with (
        running(stage, checkpoint_batch=BATCH, parcels=parcels) as service,
        await aio_pika.connect(stage.rabbit.amqp_url) as connection,
    ):
        channel = await connection.channel()
        released = await channel.declare_queue(f"released-{parcels}", durable=True)
        topics = [f"{name}-{parcels}" for name in ("flood", "other")]
        for topic in topics:
            await service.parts.broker.objects.ensure_topic(topic)
            await released.bind("delay.ready", topic)
        # Whatever asks about what is due waits from here on, so all of the flood is read before any is released.
        gate = Gate(service, "fire")
        due_ms = now_ms() + 8_000
        await send(service, topics[0], flood, due_ms)
        await send(service, topics[1], 1, due_ms + 300)
        async with asyncio.timeout(PATIENCE_S):
            await gate.reached.wait()
            while not await asyncio.to_thread(all_is_read, stage):
                pass
        gate.open()
        arrived: list[str] = []
        async with asyncio.timeout(PATIENCE_S), released.iterator(no_ack=True) as messages:
            async for message in messages:
                arrived.append(message.message_id or "")
                if len(arrived) > flood:
                    break
    assert len(set(arrived)) == flood + 1
    # The batches under way when it is read, its own, and those that begin after its own and end before.
    assert arrived.index(f"{topics[1]}-0") < (_AT_ONCE + 1 + (_AT_ONCE - 1)) * most_in_a_batch < flood


async def send(service: Service, topic: str, count: int, due_ms: int) -> None:
    drafts = [
        Draft(topic=topic, id=f"{topic}-{number}", envelope=Envelope(body=b"0"), deliver_at_ms=due_ms)
        for number in range(count)
    ]
    sent = await service.sending.send_many(drafts)
    assert not [one for one in sent if isinstance(one, Exception)]


def all_is_read(stage: Stage) -> bool:
    """Whether all that is delayed stands before the checkpoint, and was delivered to it."""
    columns = ("name", "messages", "messages_unacknowledged")
    lines = [line.split() for line in stage.rabbit.ctl("list_queues", *columns, "--no-table-headers").splitlines()]
    delayed = {name: (int(standing), int(read)) for name, standing, read in lines if name.startswith("delay.")}
    standing, read = delayed["delay.checkpoint"]
    return read > 1 and read == sum(messages for messages, _ in delayed.values()) == standing
