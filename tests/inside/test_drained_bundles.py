"""Tests that a bundle which a drain has moved is unpacked under the new names."""

from __future__ import annotations

import aio_pika

from bridge.model.message import Envelope
from bridge.model.values import Draft
from tests.forked_bridge import PATIENCE
from tests.inside.running import running
from tests.inside.stage import Stage
from tests.inside.test_crash_in_bundles import each_comes_once
from tests.pika import pika
from topology.drain import drain
from topology.names import Names

IDS = [f"m-{at}" for at in range(30)]


async def test_drained_bundle_is_unpacked_under_the_new_names(stage: Stage) -> None:
    topic = "drained"
    drafts = [Draft(topic=topic, id=one, envelope=Envelope(body=one.encode()), delay_ms=6_000) for one in IDS]
    async with running(stage, **PATIENCE) as service:
        due_ms: list[int] = []
        for sent in await service.sending.send_many(drafts):
            assert not isinstance(sent, Exception)
            due_ms.append(sent.message.record.due_ms)
    async with await aio_pika.connect(stage.amqp_url) as connection:
        moved = (await drain(pika(connection), Names(), Names(prefix="delay2"), timeout_s=60)).moved
    assert sum(moved.values()) == 1
    async with running(stage, prefix="delay2", **PATIENCE) as service:
        await each_comes_once(service, topic, IDS, not_before_ms=min(due_ms))
