"""Tests when a bridge declares the wheel."""

from __future__ import annotations

import pytest

from bridge.broker.declared.wheel import Wheel
from tests.fault.api import now_ms
from tests.inside.crash import comes_once, draft, send
from tests.inside.running import running
from tests.inside.stage import Stage


async def test_the_wheel_is_declared_once_and_again_after_the_loss_of_a_publishing_connection(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    declares: list[bool] = []
    declare = Wheel._declare

    async def noted(wheel: Wheel, *, binds: bool) -> None:
        declares.append(binds)
        await declare(wheel, binds=binds)

    monkeypatch.setattr(Wheel, "_declare", noted)
    async with running(stage, verify_every=0) as service:
        for topic in ("first", "second"):
            await send(service, draft(topic, delay_ms=500))
            await comes_once(service, topic, not_before_ms=now_ms())
            assert len(declares) == 1
        await service.context.broker._releasing.drop()
        await send(service, draft("third", delay_ms=500))
        await comes_once(service, "third", not_before_ms=now_ms())  # its release opens another connection
        await send(service, draft("fourth"))
        assert len(declares) == 2
