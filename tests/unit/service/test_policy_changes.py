"""Tests that the binding of a topic follows its stored policy, in whatever order two changes of it end."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from bridge.model.values import Release
from bridge.service.topics.policies import Policies
from bridge.store.calls import Call
from bridge.store.keys import Keys
from tests.effective import DEFAULTS

KEYS = Keys("delay")


class Redis:
    """Has the policy of one topic."""

    stored: bytes | None = None

    async def command(self, *words: Any) -> Any:
        return self.stored

    async def run(self, calls: Sequence[Call[Any]]) -> list[int]:
        former, self.stored = self.stored, calls[0].args[1]
        assert calls[0].args[0] == (former or b"")
        return [1]


class Broker:
    """Has the binding of one topic. It binds the topic past the checkpoint only once it may."""

    def __init__(self) -> None:
        self.direct = False
        self.asked = asyncio.Event()
        self.may_bind = asyncio.Event()

    async def set_direct(self, topic: str, direct: bool) -> None:
        if direct:
            self.asked.set()
            await self.may_bind.wait()
        self.direct = direct


async def test_topic_that_is_checked_again_before_it_was_bound_ends_checked() -> None:
    broker = Broker()
    policies = Policies(Redis(), KEYS, broker, DEFAULTS)  # type: ignore[arg-type]
    to_direct = asyncio.create_task(policies.change("orders", lambda policy: replace(policy, release=Release.DIRECT)))
    await broker.asked.wait()
    await policies.change("orders", lambda policy: replace(policy, release=Release.CHECKED, max_retry=5))
    broker.may_bind.set()
    await to_direct

    assert not broker.direct
    seen = await policies.seen("orders")
    assert (seen.release, seen.max_retry) == (Release.CHECKED, 5)
