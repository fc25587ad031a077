"""Tests when a channel that feeds have shared is closed."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest

from bridge.broker.ready import feed_channels
from bridge.broker.ready.feed_channels import FeedChannels


@dataclass
class _Channel:
    """A channel and its acknowledger. `retired`: set as it is retired."""

    is_open: bool = True
    retired: bool = False

    @property
    def acknowledger(self) -> _Channel:
        return self

    def retire(self, _: Any) -> None:
        self.retired = True


class _Connection:
    async def channel(self) -> _Channel:
        return _Channel()


@pytest.mark.parametrize("is_open", [True, False])
async def test_doubted_channel_is_retired_unless_its_connection_is_closed_already(
    monkeypatch: pytest.MonkeyPatch, is_open: bool
) -> None:
    monkeypatch.setattr(feed_channels, "_DOUBTED_FOR_S", 0.0)
    channels = FeedChannels(_Connection())  # type: ignore[arg-type]
    shared: Any = await channels.join()
    channels.leave(shared)
    shared.channel.is_open = is_open

    for _ in range(3):
        await asyncio.sleep(0)  # the timer runs

    assert shared.is_old
    assert shared.channel.retired is is_open
