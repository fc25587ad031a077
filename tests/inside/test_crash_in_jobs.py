"""Tests that a process that dies while it replaces a job leaves the old job or the new one. The push can be
repeated."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest
from starlette.requests import Request

from bridge.access.caller import ANYBODY
from bridge.http.wires.jobs.global_jobs import GlobalJobs
from bridge.http.wires.jobs.job_messages import Job
from bridge.model.errors import Unavailable
from bridge.model.message import CopyKind, State
from bridge.service.pools.pools import Pools
from bridge.service.service import Service
from bridge.settings.pools import DEFAULT
from tests.fault.api import now_ms
from tests.inside.crash import (
    ABSENCE_MS,
    PATIENCE_S,
    DyingAt,
    after,
    dies_in,
    dying,
    of_kind,
    pull,
    restarted,
)
from tests.inside.stage import Stage
from tests.waiting import pause


def job(topic: str, body: str, *, delay_s: int) -> Job:
    return Job(topic=topic, id="it", delay_s=delay_s, ttr_s=30, body=body)


def jobs_of(service: Service) -> GlobalJobs:
    return GlobalJobs(Pools({DEFAULT: service}))


async def push(service: Service, what: Job) -> None:
    await jobs_of(service).push(what, Request({"type": "http", "headers": []}), ANYBODY)


async def push_again(service: Service, what: Job) -> None:
    """Pushes until the job is accepted."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            with suppress(Unavailable):
                return await push(service, what)
            await pause()


async def comes(service: Service, topic: str, body: bytes) -> None:
    """Asserts that the job is delivered with this body, and that finishing it by its id ends it."""
    (leased,) = await pull(service, topic)
    envelope = leased.message.envelope
    assert envelope is not None
    assert (leased.message.record.id, envelope.body) == ("it", body)
    assert await jobs_of(service).finish("it", ANYBODY)
    assert await pull(service, topic, wait_ms=ABSENCE_MS) == []
    assert (await service.lookup.get(topic, "it")).record.state is State.ACKED


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("delay_s", [0, 1])
@pytest.mark.parametrize("step", ["published", "named"])
async def test_a_crash_in_a_replace_leaves_the_old_message_or_the_new(
    stage: Stage, step: str, delay_s: int, again: bool
) -> None:
    topic = f"replace-{step}-{delay_s}-{again}"
    async with dying(stage) as (mortal, service):
        await push(service, job(topic, "old", delay_s=2))
        due_ms = now_ms()
        (of_kind(CopyKind.MOVE) if step == "published" else after("replace"))(mortal)
        await dies_in(mortal, push(service, job(topic, "new", delay_s=delay_s)))
    async with restarted(stage) as service:
        if again:
            await push_again(service, job(topic, "new", delay_s=delay_s))
        await comes(service, topic, b"new" if again or step == "named" else b"old")
        assert now_ms() >= due_ms + (delay_s * 1_000)


@pytest.mark.parametrize(
    ("step", "dying_at", "lives_in"),
    [
        ("noted", after("place"), ["a"]),
        ("claimed", after("schedule"), ["a"]),
        ("sent", after("confirm"), ["a", "b"]),
        ("ended", after("delete"), ["b"]),
    ],
)
@pytest.mark.parametrize("then", ["repeated", "deleted"])
async def test_a_crash_in_a_push_to_another_topic_leaves_one_job_once_it_is_repeated_or_none_once_it_is_ended(
    stage: Stage, step: str, dying_at: DyingAt, lives_in: list[str], then: str
) -> None:
    topics = {name: f"moved-{step}-{then}-{name}" for name in "ab"}

    async def found(service: Service) -> list[str]:
        messages = await service.lookup.find(list(topics.values()), "it")
        return [one.record.topic[-1] for one in messages if not one.record.state.ended]

    async with dying(stage) as (mortal, service):
        await push(service, job(topics["a"], "old", delay_s=600))
        dying_at(mortal)
        await dies_in(mortal, push(service, job(topics["b"], "new", delay_s=1)))
    async with restarted(stage) as service:
        assert await found(service) == lives_in
        if then == "repeated":
            await push_again(service, job(topics["b"], "new", delay_s=1))
            assert await found(service) == ["b"]
            await comes(service, topics["b"], b"new")
        else:
            await jobs_of(service).delete("it", ANYBODY)
            assert await found(service) == []
            assert await pull(service, topics["b"], wait_ms=ABSENCE_MS) == []
