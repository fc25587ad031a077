"""Tests that each loop that meets a bug says so in every place at once, logs it once, and says when it works again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import Any

import httpx2
import pytest
import pytest_asyncio
from structlog.testing import capture_logs

from bridge.access.sources import StoreSource
from bridge.access.tokens import Tokens
from bridge.cli.assembly import assemble
from bridge.cli.doctor.checks.running import CHECKS
from bridge.cli.doctor.facts.facts import Facts
from bridge.cli.doctor.facts.missing import Missing
from bridge.cli.doctor.facts.running import running
from bridge.http.app import create_app
from bridge.loops.audit import Audit
from bridge.loops.callbacks import worker
from bridge.loops.callbacks.loop import Loop as Callbacks
from bridge.loops.callbacks.worker import Worker
from bridge.loops.checkpoint.lanes import Checkpoints
from bridge.loops.checkpoint.session import Session
from bridge.loops.ingress import Ingress
from bridge.loops.operations import Operations
from bridge.loops.recorded_acks import AckListener
from bridge.loops.schedules import Schedules
from bridge.loops.watch import Watch
from bridge.metrics.loops import FAILURES
from bridge.model.message import Envelope
from bridge.model.values import Draft
from bridge.service.health import supervisor
from bridge.service.health.lookout import Lookout
from bridge.service.pools.pools import Pools
from bridge.service.pulling.unacked_leases import UnackedLeases
from bridge.service.topics.subscriptions import Subscription
from bridge.settings.settings import Settings
from bridge.store.kept.tokens import StoredTokens
from tests.inside.stage import Stage
from tests.waiting import pause

PATIENCE_S = 30.0
TOPIC, CALLED = "failing", "failing-called"
FAULTS = {
    "access": (Tokens, "run_once", "access"),
    "acks": (AckListener, "run_once", "acks"),
    "audit": (Audit, "run_once", "audit"),
    "checkpoint": (Session, "_next_due", "checkpoint"),
    "lanes": (Checkpoints, "_follow", "checkpoint"),
    "ingress": (Ingress, "run_once", "ingress"),
    "leases": (UnackedLeases, "run_once", "leases"),
    "operations": (Operations, "run_once", "operations"),
    "probes": (Lookout, "run_once", "probes"),
    "push": (Callbacks, "run_once", "push"),
    "push worker": (Worker, "_pull", "push"),
    "schedules": (Schedules, "run_once", "schedules"),
    "watch": (Watch, "run_once", "watch"),
}
"""By fault: the class and the method that raises, and the part of the health that must say so."""


class BrokenError(Exception):
    """A bug of the bridge."""


@dataclass(frozen=True, slots=True)
class Bridge:
    """A bridge in this process with all loops. `faults`: setting one makes its loop raise at once, and from then on.
    `log`: the lines since the start."""

    pools: Pools
    http: httpx2.AsyncClient
    faults: dict[str, asyncio.Event]
    log: list[MutableMapping[str, Any]]

    async def until(self, part: str, holds: Callable[[str], bool]) -> httpx2.Response:
        async with asyncio.timeout(PATIENCE_S):
            while not holds((answer := await self.http.get("/health/ready")).json()["parts"][part]):
                await pause()
        return answer

    async def metric(self, name: str, **labels: str) -> float:
        (label,) = labels.items()
        line = f'delaybridge_{name}{{{label[0]}="{label[1]}"}} '
        text = (await self.http.get("/metrics")).text
        return next(float(one.removeprefix(line)) for one in text.splitlines() if one.startswith(line))

    def failures(self, part: str) -> list[MutableMapping[str, Any]]:
        return [line for line in self.log if line["event"] == "loop.failed" and line["loop"] == part]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def bridge(stage: Stage) -> AsyncIterator[Bridge]:
    with pytest.MonkeyPatch.context() as patch, capture_logs() as log:
        faults = {name: asyncio.Event() for name in FAULTS}
        for name, (owner, method, _) in FAULTS.items():
            patch.setattr(owner, method, _breakable(getattr(owner, method), faults[name]))
        patch.setattr(worker, "_WAIT_MS", 100)
        patch.setattr(supervisor, "_LONGEST_PAUSE_S", 0.1)
        settings = Settings(
            amqp_url=stage.amqp_url,
            redis_url=stage.redis_url,
            audit_every=100,
            verify_every=100,
            lease_copy_after=50,
            broker_timeout=10_000,
            store_timeout=10_000,
        )
        pools = assemble(settings)
        context = pools.default.loops_context
        pools.default.add(Tokens(StoreSource(StoredTokens(context.store, context.records.keys))))
        transport = httpx2.ASGITransport(app=create_app(pools))
        await pools.start()
        try:
            url = "http://127.0.0.1:9/"
            await pools.default.subscriptions.put(Subscription(topic=CALLED, url=url, secrets=("s" * 32,)))
            async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as http:
                while (await http.get("/health/ready")).status_code != 200:
                    await pause()  # a loop that is about to start says 503, and hides what the test looks at
                yield Bridge(pools, http, faults, log)
        finally:
            await pools.stop()


def _breakable(method: Callable[..., Awaitable[Any]], fault: asyncio.Event) -> Callable[..., Awaitable[Any]]:
    """The method with a fault point that it reaches at any moment."""

    async def reached(*arguments: Any, **named: Any) -> Any:
        tasks = [asyncio.ensure_future(method(*arguments, **named)), asyncio.ensure_future(fault.wait())]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if fault.is_set():
                raise BrokenError("what a client sent")
            return await tasks[0]
        finally:
            for task in tasks:
                task.cancel()

    return reached


@pytest.mark.parametrize("fault", FAULTS)
async def test_loop_that_fails_says_so_everywhere_until_it_works_again(
    bridge: Bridge, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    part = FAULTS[fault][2]
    await bridge.until(part, lambda state: state == "ok")
    before, logged = await bridge.metric("loop_failures_total", loop=part), len(bridge.failures(part))
    monkeypatch.setattr(supervisor, "HOLD_S", PATIENCE_S)
    bridge.faults[fault].set()
    if fault == "leases":
        await _lease(bridge.pools)

    ready = await bridge.until(part, lambda state: state.startswith("failed: BrokenError "))
    says = f"the loop {part} has failed since "
    (finding,) = [one for one in ready.json()["findings"] if one["says"].startswith(says)]
    assert "what a client sent" not in ready.text
    expected = (503, "error") if part == "access" else (200, "warning")
    assert (ready.status_code, finding["severity"]) == expected, ready.text
    assert ready.json().get("status") == (503 if part == "access" else "degraded")
    assert await bridge.metric("up", part=part) == 0
    assert await bridge.metric("loop_failures_total", loop=part) > before

    bridge.pools.overview._again_s = 0.0
    overview = (await bridge.http.get("/v1/overview")).json()
    assert overview["parts"][part].startswith("failed: BrokenError ")
    assert any(one["says"].startswith(says) for one in overview["findings"])

    facts = await _asked_by_the_doctor(bridge, monkeypatch)
    found = {check.number: check.decide(facts) for check in CHECKS}
    for number, words in ((401, f"{part} of the bridge at "), (402, says)):
        faults = found[number]
        assert not isinstance(faults, Missing)
        assert any(one.found.startswith(words) for one in faults)

    if fault != "leases":  # it fails once for each lease
        async with asyncio.timeout(PATIENCE_S):
            while FAILURES.labels(part)._value.get() < before + 3:
                await pause()
    bridge.faults[fault].clear()
    monkeypatch.setattr(supervisor, "HOLD_S", 0.0)
    await bridge.until(part, lambda state: state == "ok")
    while await bridge.metric("up", part=part) != 1:  # a pass that began before may still have failed
        await pause()
    (line,) = bridge.failures(part)[logged:]
    assert (line["log_level"], line["loop"]) == ("error", part)
    assert type(line["exc_info"]) is BrokenError


async def _lease(pools: Pools) -> None:
    service = pools.default
    await service.sending.send_many([Draft(topic=TOPIC, id="m-1", envelope=Envelope(body=b"1"), delay_ms=0)])
    assert await service.pulling.pull([TOPIC], limit=1, wait_ms=10_000, lease_ms=60_000)


async def _asked_by_the_doctor(bridge: Bridge, monkeypatch: pytest.MonkeyPatch) -> Facts:
    client, transport = httpx2.AsyncClient, bridge.http._transport
    with monkeypatch.context() as patch:
        patch.setattr(httpx2, "AsyncClient", lambda **given: client(transport=transport, base_url=given["base_url"]))
        return Facts(running=await running("http://localhost"))
