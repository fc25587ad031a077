"""Runs a bridge in this process that dies between two of its steps."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from bridge.broker.publications import Publication, Route
from bridge.loops.checkpoint.lanes import Checkpoints
from bridge.loops.ingress import Ingress
from bridge.loops.recorded_acks import AckListener
from bridge.model.errors import BrokerUnavailable, Unavailable
from bridge.model.message import CopyKind, Envelope, Message, State
from bridge.model.values import Change, Draft, Leased
from bridge.service.service import Service
from bridge.settings.pools import DEFAULT
from bridge.settings.settings import Settings
from bridge.store.calls import Call
from tests.fault.api import now_ms
from tests.forked_bridge import PATIENCE
from tests.inside.stage import Stage
from tests.waiting import pause

Publish = Callable[[Sequence[Publication]], Coroutine[Any, Any, list[BrokerUnavailable | None]]]
Run = Callable[..., Coroutine[Any, Any, list[Any]]]
PATIENCE_S = 30.0
ABSENCE_MS = 1_500  # longer than the rest of any lease or delay in these tests


class Mortal:
    """A service that reaches its servers through proxies. At the chosen step its code stops for ever; `die` then cuts
    its connections, as the end of a process does."""

    def __init__(self, stage: Stage, *, grace_ms: int = 10_000, **settings: Any) -> None:
        self._amqp, self._redis = stage.proxy(stage.amqp_url), stage.proxy(stage.redis_url)
        self._settings = {"grace": grace_ms, "camellia": False, "backoff_first": 0, **PATIENCE, **settings}
        self.reached = asyncio.Event()
        self._stopped: set[asyncio.Task[Any]] = set()

    async def start(self) -> Service:
        await self._amqp.__aenter__()
        await self._redis.__aenter__()
        settings = Settings(amqp_url=self._amqp.url, redis_url=self._redis.url, **self._settings)
        self.service = service = Service(settings, pool=DEFAULT)
        # Without the watch and the audit: their first passes would take most of the CPU of a start.
        service.add(Checkpoints(service.loops_context))
        service.add(AckListener(service.loops_context))
        service.add(Ingress(service.loops_context))
        await service.start()
        return self.service

    def dies_before_script(self, name: str) -> None:
        self._stops_at_script(name, before=True)

    def dies_after_script(self, name: str) -> None:
        self._stops_at_script(name, before=False)

    def dies_after_publish(self, meant: Callable[[Publication], bool]) -> None:
        broker = self.service.context.broker
        for ways in (broker.copy_publisher, broker.releases):
            ways.publish = self._stopping(ways.publish, meant)  # type: ignore[assignment, method-assign]

    async def die(self) -> None:
        """Waits until the service has reached the step, then ends it."""
        async with asyncio.timeout(PATIENCE_S):
            await self.reached.wait()
        await self.end()

    async def end(self) -> None:
        await self._amqp.__aexit__()
        await self._redis.__aexit__()
        with suppress(Unavailable):
            await self.service.stop()
        for task in self._stopped:
            task.cancel()
        await asyncio.gather(*self._stopped, return_exceptions=True)

    def _stops_at_script(self, name: str, *, before: bool) -> None:
        for context in (self.service.context, self.service.loops_context):
            context.store.run = self._stopping_run(context.store.run, name, before=before)  # type: ignore[method-assign]

    def _stopping_run(self, run: Run, name: str, *, before: bool) -> Run:
        async def stopping(calls: Sequence[Call[Any]], until_s: float | None = None) -> list[Any]:
            meant = any(call.script.name == name for call in calls)
            if meant and before:
                await self._stop()
            answers = await run(calls, until_s)
            if meant:
                await self._stop()
            return answers

        return stopping

    def _stopping(self, publish: Publish, meant: Callable[[Publication], bool]) -> Publish:
        async def stopping(publications: Sequence[Publication]) -> list[BrokerUnavailable | None]:
            errors = await publish(publications)
            if any(meant(one) for one in publications):
                assert errors == [None] * len(errors)
                await self._stop()
            return errors

        return stopping

    async def _stop(self) -> None:
        self.reached.set()
        task = asyncio.current_task()
        assert task is not None
        self._stopped.add(task)
        await asyncio.Event().wait()


def draft(topic: str, *, message_id: str = "it", delay_ms: int = 0, max_retry: int = 3) -> Draft:
    return Draft(topic=topic, id=message_id, envelope=Envelope(body=b'"it"'), delay_ms=delay_ms, max_retry=max_retry)


async def send(service: Service, what: Draft) -> int:
    """Sends until the message is accepted, and returns its due moment in Unix ms."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            with suppress(Unavailable):
                return (await service.sending.send(what)).message.record.due_ms
            await pause()


async def change(service: Service, topic: str, message_id: str = "it", **what: Any) -> Message:
    """Changes a message. `what`: the fields of a `Change`."""
    return await service.changing.change(await service.lookup.get(topic, message_id), Change(**what))


async def pull(service: Service, topic: str, *, lease_ms: int = 30_000, wait_ms: int = 20_000) -> list[Leased]:
    """Pulls until a pull is answered."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            with suppress(Unavailable):
                return await service.pulling.pull([topic], limit=1, wait_ms=wait_ms, lease_ms=lease_ms)
            await pause()


DyingAt = Callable[[Mortal], None]


def before(script: str) -> DyingAt:
    return lambda mortal: mortal.dies_before_script(script)


def after(script: str) -> DyingAt:
    return lambda mortal: mortal.dies_after_script(script)


def published(meant: Callable[[Publication], bool]) -> DyingAt:
    return lambda mortal: mortal.dies_after_publish(meant)


def of_kind(kind: CopyKind) -> DyingAt:
    return published(lambda one: one.route is Route.WHEEL and one.kind is kind and not one.copy.asked)


def on_way(route: Route) -> DyingAt:
    return published(lambda one: one.route is route)


@asynccontextmanager
async def dying(stage: Stage, **settings: Any) -> AsyncIterator[tuple[Mortal, Service]]:
    # A short grace, as the service waits for code that has stopped at its step.
    mortal = Mortal(stage, grace_ms=100, **settings)
    yield mortal, await mortal.start()


@asynccontextmanager
async def restarted(stage: Stage) -> AsyncIterator[Service]:
    """Starts a new service on the same servers."""
    mortal = Mortal(stage)
    try:
        yield await mortal.start()
    finally:
        await mortal.service.stop()
        await mortal.end()


async def dies_in(mortal: Mortal, work: Coroutine[Any, Any, object]) -> None:
    """Runs the work until the process dies in it. Raises what the work raises before."""
    task, reached = asyncio.create_task(work), asyncio.create_task(mortal.reached.wait())
    await asyncio.wait((task, reached), timeout=PATIENCE_S, return_when=asyncio.FIRST_COMPLETED)
    reached.cancel()
    if task.done():
        pytest.fail(f"the work ended before the step at which the process dies: {task.result()}")
    await mortal.die()
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


async def comes_once(
    service: Service,
    topic: str,
    *,
    not_before_ms: int,
    most_attempts: int = 4,
    message_id: str | None = "it",
    body: bytes = b'"it"',
) -> None:
    """Asserts that the message is delivered, is acked, and does not come back. `message_id` None: any id."""
    (leased,) = await pull(service, topic)
    assert now_ms() >= not_before_ms
    record = leased.message.record
    assert message_id in (None, record.id)
    assert leased.message.envelope is not None
    assert leased.message.envelope.body == body
    assert record.attempts <= most_attempts
    (result,) = await service.settling.ack_receipts(topic, [leased.receipt])
    assert result.verdict == "acked"
    assert await pull(service, topic, wait_ms=ABSENCE_MS) == []
    assert (await service.lookup.get(topic, record.id)).record.state is State.ACKED
