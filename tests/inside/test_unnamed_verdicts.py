"""Tests that nothing is acknowledged or dropped where a script answers what this version has no rule for."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NoReturn

import pytest

from bridge.loops.checkpoint import batches
from bridge.loops.watch import Watch
from bridge.metrics.store import UNNAMED
from bridge.model.errors import UnnamedVerdict
from bridge.service.service import Service
from bridge.store.calls import Call
from bridge.store.client import Store
from bridge.store.messages.outcomes import NoRule
from tests.forked_bridge import PATIENCE
from tests.inside.crash import draft, pull, send
from tests.inside.running import running
from tests.inside.stage import Stage

LEASE_MS = 1_000

pytestmark = pytest.mark.expects_log("store.unnamed_verdict")


class Deferring:
    """Lets a script answer `defer` about the message `it`, which no rule names, until `end`."""

    def __init__(self, store: Store, script_name: str) -> None:
        self.came = asyncio.Event()
        self._store, self._script_name, self._run = store, script_name, store.run
        store.run = self._deferring  # type: ignore[method-assign]

    def end(self) -> None:
        self._store.run = self._run  # type: ignore[method-assign]

    async def _deferring(self, calls: Sequence[Call[Any]], until_s: float | None = None) -> list[Any]:
        meant = [call.script.name == self._script_name and call.message_id == "it" for call in calls]
        return await self._run(
            [
                replace(call, read=self._defer) if is_meant else call
                for call, is_meant in zip(calls, meant, strict=True)
            ],
            until_s,
        )

    def _defer(self, call: Call[Any], answer: Any) -> NoReturn:
        self.came.set()
        raise NoRule(call, b"defer")


def counted(script_name: str) -> float:
    (sample,) = [
        sample
        for metric in UNNAMED.collect()
        for sample in metric.samples
        if sample.name.endswith("_total") and sample.labels["script"] == script_name
    ]
    return sample.value


async def ids(service: Service, topic: str) -> list[str]:
    return [one.message.record.id for one in await pull(service, topic)]


async def test_a_due_copy_is_held_counted_and_told_and_holds_up_no_other(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "_UNNAMED_MS", 200)
    topic = "deferred-release"
    async with running(stage, verify_every=0, **PATIENCE) as service:
        deferring = Deferring(service.loops_context.store, "fire")
        for message_id in ("it", "other"):
            await send(service, draft(topic, message_id=message_id, delay_ms=300))
        await deferring.came.wait()
        assert await ids(service, topic) == ["other"]

        assert counted("fire") >= 1
        watch = Watch(service.context)
        await watch.run_once()
        (finding,) = [one for one in watch.findings if "no rule" in one.says]
        assert "'defer' to the script fire" in finding.says
        assert not watch.broken

        deferring.end()
        assert await ids(service, topic) == ["it"]


async def test_a_delivery_is_put_back_and_its_pull_is_refused(stage: Stage) -> None:
    topic = "deferred-lease"
    async with running(stage, **PATIENCE) as service:
        deferring = Deferring(service.context.store, "lease")
        await send(service, draft(topic))
        with pytest.raises(UnnamedVerdict, match=r"Redis at .* answered 'defer' to the script lease about .*'it'"):
            await service.pulling.pull([topic], limit=1, wait_ms=5_000, lease_ms=LEASE_MS)
        deferring.end()
        # Redis has begun the lease, so the message comes when that ends.
        assert await ids(service, topic) == ["it"]


async def test_a_claim_is_refused_and_the_other_sends_of_its_group_are_accepted(stage: Stage) -> None:
    topic = "deferred-claim"
    async with running(stage, **PATIENCE) as service:
        Deferring(service.context.store, "schedule")
        sent = await service.sending.send_many(
            [draft(topic, message_id=one, delay_ms=60_000) for one in ("it", "other")]
        )
        assert [type(one).__name__ for one in sent] == ["UnnamedVerdict", "Sent"]
