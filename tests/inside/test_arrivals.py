"""Tests that a send to a new topic is answered once a pull finds its message, whichever process releases it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from bridge.broker.copy_publisher import CopyPublisher
from bridge.broker.publications import Publication, Route
from bridge.model.errors import BrokerUnavailable
from bridge.model.message import Copy, Record, State
from bridge.store.arrivals import StoredArrivals
from tests.forked_bridge import PATIENCE
from tests.inside.crash import PATIENCE_S, draft, send
from tests.inside.running import running
from tests.inside.stage import Stage


async def test_send_to_a_new_topic_is_answered_once_a_pull_finds_its_message(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    released, opened, looked = asyncio.Event(), asyncio.Event(), asyncio.Event()
    publish, noted = CopyPublisher.publish, StoredArrivals.noted

    async def held(self: CopyPublisher, publications: Sequence[Publication]) -> list[BrokerUnavailable | None]:
        if any(one.route is Route.READY for one in publications):
            released.set()
            await opened.wait()
        return await publish(self, publications)

    async def looking(self: StoredArrivals, copies: Sequence[Copy | Record]) -> list[bool]:
        arrived = await noted(self, copies)
        if released.is_set():
            looked.set()
        return arrived

    monkeypatch.setattr(CopyPublisher, "publish", held)
    monkeypatch.setattr(StoredArrivals, "noted", looking)
    monkeypatch.setattr("bridge.service.sending.detours.WITHIN_S", PATIENCE_S)
    async with running(stage, **PATIENCE) as sender, running(stage, **PATIENCE) as other:
        sending = asyncio.create_task(send(sender, draft("at-once")))
        # The checkpoint of either process is about to publish the message, and its record says that it is ready.
        await released.wait()
        assert (await other.lookup.get("at-once", "it")).record.state is State.READY
        await looked.wait()
        looked.clear()
        await looked.wait()
        assert not sending.done()
        opened.set()
        await sending
        (leased,) = await other.pulling.pull(["at-once"], limit=1, wait_ms=0, lease_ms=30_000)
        assert leased.message.record.id == "it"
