"""Tests that a removed topic stays away, whatever the checkpoint and the removal were doing meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
import pytest_asyncio
from pamqp.commands import Queue

from bridge.broker.publications import Publication, Route
from bridge.model.errors import BrokerUnavailable, NotFound, StoreUnavailable
from bridge.service.service import Service
from tests.forked_bridge import PATIENCE
from tests.inside.crash import draft, pull, send
from tests.inside.running import running
from tests.inside.stage import Stage


@pytest_asyncio.fixture(loop_scope="function")
async def service(stage: Stage) -> AsyncIterator[Service]:
    async with running(stage, **PATIENCE) as service:
        yield service


@asynccontextmanager
async def before_next(service: Service, route: Route, do: Callable[[], Awaitable[object]]) -> AsyncIterator[None]:
    """Calls `do` before the checkpoint's next publication of this route, and waits for the end of that publication."""
    releases, done = service.context.broker.releases, asyncio.Event()
    publish = releases.publish

    async def do_and_publish(publications: Sequence[Publication]) -> list[BrokerUnavailable | None]:
        if not any(publication.route is route for publication in publications):
            return await publish(publications)
        releases.publish = publish  # type: ignore[method-assign]
        await do()
        errors = await publish(publications)
        done.set()
        return errors

    releases.publish = do_and_publish  # type: ignore[method-assign]
    yield
    await done.wait()


async def exists(service: Service, topic: str) -> bool:
    """Whether the list or RabbitMQ has the topic."""
    declared = service.context.broker.declared
    declared.forget_topics([topic])
    return topic in await service.topics.names() or await declared.finds_topic(topic)


@pytest.mark.parametrize("elsewhere", [False, True], ids=["here", "elsewhere"])
async def test_topic_that_is_removed_before_a_release_does_not_come_back(
    stage: Stage, service: Service, elsewhere: bool
) -> None:
    topic = f"released-{elsewhere}"
    async with running(stage, roles="api", **PATIENCE) as other:
        topics = (other if elsewhere else service).topics
        async with before_next(service, Route.READY, lambda: topics.remove(topic, force=True)):
            await send(service, draft(topic, delay_ms=500))
        assert not await exists(service, topic)


@pytest.mark.parametrize("elsewhere", [False, True], ids=["here", "elsewhere"])
async def test_topic_that_is_removed_before_a_letter_is_dead_does_not_come_back(
    stage: Stage, service: Service, elsewhere: bool
) -> None:
    topic = f"buried-{elsewhere}"
    async with running(stage, roles="api", **PATIENCE) as other:
        topics = (other if elsewhere else service).topics
        await send(service, draft(topic, max_retry=0))
        async with before_next(service, Route.DEAD, lambda: topics.remove(topic, force=True)):
            assert await pull(service, topic, lease_ms=1_000)
        assert not await exists(service, topic)


async def test_topic_whose_queues_are_deleted_before_a_release_gets_them_again(service: Service) -> None:
    topic = "deleted"

    async def delete() -> None:
        channel = await service.context.broker.consuming.channel()
        await channel.rpc(Queue.Delete(queue=f"ready.{topic}"))
        await channel.close()

    async with before_next(service, Route.READY, delete):
        await send(service, draft(topic, delay_ms=500))
    assert [one.message.record.id for one in await pull(service, topic)] == ["it"]


@pytest.mark.parametrize("later_s", [0, 90], ids=["at once", "after the mark's time"])
async def test_topic_that_another_process_uses_just_after_its_removal_is_listed(
    stage: Stage, service: Service, later_s: int
) -> None:
    topic = f"used-{later_s}"
    async with running(stage, roles="api", **PATIENCE) as other:
        await send(other, draft(topic, delay_ms=3_600_000))
        await service.topics.remove(topic, force=True)
        assert topic not in await service.topics.names()
        await send(other, draft(topic, delay_ms=3_600_000))
    await asyncio.sleep(later_s)
    assert topic in await service.topics.names()
    await service.topics.known(topic)
    assert await service.topics.remove(topic, force=True) == 1
    assert not await exists(service, topic)


async def test_topic_used_just_after_its_removal_is_found_and_removed_by_its_name(
    stage: Stage, service: Service
) -> None:
    async with running(stage, roles="api", **PATIENCE) as other:
        for topic, use in (("known", service.topics.known), ("removed", service.topics.remove)):
            await send(other, draft(topic, delay_ms=3_600_000))
            await service.topics.remove(topic, force=True)
            await send(other, draft(topic, delay_ms=3_600_000))
            await use(topic, **({"force": True} if topic == "removed" else {}))
        assert "removed" not in await other.topics.names()


@pytest.mark.parametrize("is_used", [False, True])
async def test_mark_of_a_removal_goes_after_a_minute(service: Service, is_used: bool) -> None:
    topic = f"marked-{is_used}"
    await send(service, draft(topic, delay_ms=3_600_000))
    await service.topics.remove(topic, force=True)
    if is_used:
        await send(service, draft(topic, delay_ms=3_600_000))
    store, key = service.context.store, service.context.records.keys.removed_topics
    await service.topics.names()
    assert await store.command("ZCARD", key) == 1
    await asyncio.sleep(61)
    assert (topic in await service.topics.names()) == is_used
    assert await store.command("ZCARD", key) == 0


async def test_removal_whose_answer_was_lost_is_finished_by_the_next_one(service: Service) -> None:
    topic = "removed-twice"
    await send(service, draft(topic, delay_ms=3_600_000))
    lost_answer(service, "SREM")
    with pytest.raises(StoreUnavailable):
        await service.topics.remove(topic, force=True)
    assert await exists(service, topic)
    await service.topics.remove(topic, force=True)
    assert not await exists(service, topic)
    with pytest.raises(NotFound):
        await service.topics.remove(topic, force=True)


def lost_answer(service: Service, name: str) -> None:
    """Loses the answer of the next command of this name."""
    store = service.context.store
    command = store.command

    async def losing(*args: Any) -> Any:
        answer = await command(*args)
        if args[0] == name:
            store.command = command  # type: ignore[method-assign]
            raise StoreUnavailable("the answer was lost")
        return answer

    store.command = losing  # type: ignore[method-assign]
