"""Tests that a missing queue disturbs nobody who takes from others, and that a bridge finds a dead queue of another."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from pamqp.commands import Queue

from bridge.broker.client.channel import Channel
from bridge.broker.declared.declare import Declarer, NotAllowed
from bridge.broker.ready.taken import ack_all
from bridge.model.errors import QueueMissing
from bridge.service.dead.dead import Dead
from bridge.service.service import Service
from tests.forked_bridge import PATIENCE
from tests.inside.crash import draft, pull, send
from tests.inside.running import running
from tests.inside.stage import Stage
from topology.plan import Plan

CHANNELS = 8  # of the taker
ROUNDS = 20
CALLS: dict[str, Callable[[Dead, str], Awaitable[object]]] = {
    "head": lambda dead, topic: dead.head(topic),
    "replay-many": lambda dead, topic: dead.replay_many(topic, 1),
    "drop": lambda dead, topic: dead.drop(topic, "it"),
}


async def test_sweeps_of_a_topic_without_letters_leave_messages_with_those_who_took_them(stage: Stage) -> None:
    async with running(stage, **PATIENCE) as service:
        for number in range(CHANNELS + 1):
            await send(service, draft("taken", message_id=f"m-{number}"))
        broker = service.context.broker
        taken = [await broker.taker.take(broker.declared.ready_queue("taken"), 1) for _ in range(CHANNELS)]
        await send(service, draft("lively"))

        for _ in range(CHANNELS + 1):
            assert await sweep(service, "lively") == 0

        # RabbitMQ closes a channel over a get from a missing queue, and requeues what was taken over it.
        assert [one.is_open for (one,) in taken] == [True] * CHANNELS


async def test_gets_from_missing_queues_disturb_no_get_over_the_same_channels(stage: Stage) -> None:
    async with running(stage, **PATIENCE) as service:
        broker = service.context.broker
        await send(service, draft("lively"))
        ready = broker.declared.ready_queue("lively")
        assert await broker.taker.take(ready, 1)
        asked = [ready, ready, "gone"] * CHANNELS

        for _ in range(ROUNDS):
            answers = await asyncio.gather(*(broker.taker.take(queue, 1) for queue in asked), return_exceptions=True)
            for queue, answer in zip(asked, answers, strict=True):
                if queue == "gone":
                    assert isinstance(answer, QueueMissing)
                else:
                    assert isinstance(answer, list)
                    ack_all(answer)

        assert broker.consuming.generation == 1


@pytest.mark.parametrize("call", CALLS)
async def test_letters_are_not_looked_for_in_a_queue_until_it_is_declared_again(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    topic = f"declared-again-{call}"
    begun, looked = asyncio.Event(), asyncio.Event()
    events: list[str] = []
    async with running(stage, **PATIENCE) as service:
        broker, dead = service.context.broker, service.dead
        await send(service, draft(topic, max_retry=0))
        await pull(service, topic)
        await service.settling.nack(topic, "it", receipt=None, delay_ms=0, reason=None)
        apply, depth = Declarer.apply, Channel.depth

        async def held(declarer: Declarer, wanted: Plan, *, existed: bool = False) -> None:
            await apply(declarer, wanted, existed=existed)
            if not existed and any(queue.name == f"dead.{topic}" for queue in wanted.queues):
                begun.set()
                await looked.wait()
                for _ in range(ROUNDS):  # a read needs fewer round trips
                    await declarer.exists(f"dead.{topic}")
                events.append("declared")

        async def looking(channel: Channel, queue: str) -> int:
            found = await depth(channel, queue)
            if queue == f"dead.{topic}":
                looked.set()
            return found

        def noted(method: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
            async def reading(channel: Channel, queue: str, *more: object) -> Any:
                if queue == f"dead.{topic}":
                    events.append("read")
                return await method(channel, queue, *more)

            return reading

        await delete(service, f"dead.{topic}")
        broker.declared._dead.declared.discard(topic)
        monkeypatch.setattr(Declarer, "apply", held)
        monkeypatch.setattr(Channel, "depth", looking)
        declare = asyncio.create_task(broker.declared.ensure_dead(topic))
        await begun.wait()
        monkeypatch.setattr(Channel, "get", noted(Channel.get))
        monkeypatch.setattr(Channel, "consume", noted(Channel.consume))

        await CALLS[call](dead, topic)
        await declare
    assert events[:2] == ["declared", "read"]


async def test_letters_are_taken_although_their_queue_could_not_be_declared_here(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = "declared-elsewhere"
    async with running(stage, **PATIENCE) as service, running(stage, **PATIENCE) as other:
        await send(service, draft(topic, max_retry=0))
        with monkeypatch.context() as refused:

            async def refuse(*_: object, **__: object) -> None:
                raise NotAllowed("not here")

            refused.setattr(Declarer, "apply", refuse)
            with pytest.raises(NotAllowed):
                await service.context.broker.declared.ensure_dead(topic)
        await pull(other, topic)
        await other.settling.nack(topic, "it", receipt=None, delay_ms=0, reason=None)

        assert await service.dead.head(topic) == "it"
        assert await sweep(service, topic) == 1


async def delete(service: Service, queue: str) -> None:
    channel = await service.context.broker.consuming.channel()
    await channel.rpc(Queue.Delete(queue=queue))
    await channel.close()


async def test_letters_that_died_in_another_bridge_are_swept(stage: Stage) -> None:
    async with running(stage, **PATIENCE) as service:
        await send(service, draft("deadly", max_retry=0))
        await pull(service, "deadly")
        await service.settling.nack("deadly", "it", receipt=None, delay_ms=0, reason=None)

    async with running(stage, **PATIENCE) as service:
        assert await sweep(service, "deadly") == 1
        assert await sweep(service, "deadly") == 0


async def sweep(service: Service, topic: str) -> int:
    return await service.dead.drop_many(topic, 100)
