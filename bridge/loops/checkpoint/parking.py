"""Puts bundled copies that are far from due back into the wheel, in new bundles."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from itertools import chain
from time import monotonic
from typing import Final

from bridge.broker.copies.bundles import Entry
from bridge.broker.copies.open_bundle import OpenBundle
from bridge.loops.checkpoint.batches import RETRY_MS
from bridge.model.message import CopyKind
from bridge.service.context import Context

_COLLECTED_FOR_S: Final = 0.25
"""How long copies are collected, so that copies of several bundles share new bundles. None is due within a second."""

_Far = tuple[int, Entry, float]
"""The delivery tag of the bundle, the entry, and the entry's due moment in ms of `monotonic()`."""

_Group = tuple[str, CopyKind, int]
"""The topic, the kind and the corrected clock (`OpenBundle.clock`), which all copies of a new bundle share."""


class Parking:
    """Collects copies that one session puts back into the wheel, and publishes them in new bundles. The copies stay
    encoded."""

    def __init__(self, context: Context, lane: int) -> None:
        self._copy_publisher = context.broker.releases
        self._declared = context.broker.declared
        self._lane = lane
        self._far: dict[_Group, list[_Far]] = {}
        self._stranded_ms: set[int] = set()
        self._wake = asyncio.Event()
        self._ending = asyncio.Event()

    def add(self, bundle: OpenBundle, entries: Iterable[tuple[Entry, float]]) -> None:
        """Adds copies of a bundle, each with the rest of its delay in ms."""
        now_ms = monotonic() * 1_000
        far = [(bundle.tag, entry, now_ms + left_ms) for entry, left_ms in entries]
        if far:
            self._far.setdefault((bundle.topic, bundle.parked_kind, bundle.clock), []).extend(far)
            self._wake.set()
            if bundle.stranded_ms:
                self._stranded_ms.add(bundle.stranded_ms)

    async def run(self, parked: Callable[[list[int]], Awaitable[None]]) -> None:
        """Runs until `end` was called and no copy is left. Calls `parked` after each publish, with one delivery tag for
        each copy that RabbitMQ now has in a new bundle: the tag of the bundle that the copy came in.

        Raises:
            Unavailable: RabbitMQ or Redis is away.
        """
        while True:
            await self._wake.wait()
            with suppress(TimeoutError):
                async with asyncio.timeout(_COLLECTED_FOR_S):
                    await self._ending.wait()
            await parked(await self.run_once())
            if self._far:
                await asyncio.sleep(RETRY_MS / 1_000)
            elif self._ending.is_set():
                return
            else:
                self._wake.clear()

    def end(self) -> None:
        """Lets `run` end without waiting for more copies."""
        self._ending.set()
        self._wake.set()

    async def run_once(self) -> list[int]:
        """Publishes the collected copies in new bundles. Returns for each published copy the delivery tag of the bundle
        that it came in. Keeps the other copies for the next run.

        Raises:
            BrokerUnavailable: RabbitMQ is away, or does not answer in time.
        """
        stranded_ms, self._stranded_ms = self._stranded_ms, set()
        for left_ms in stranded_ms:
            await self._declared.wheel.renew_slots(self._lane, left_ms)
        collected, self._far = self._far, {}
        parked = await asyncio.gather(*(self._park(group, far) for group, far in collected.items()))
        return [*chain.from_iterable(parked)]

    async def _park(self, group: _Group, far: list[_Far]) -> list[int]:
        topic, kind, _ = group
        now_ms = monotonic() * 1_000
        entries = [(entry, max(0.0, moment_ms - now_ms)) for _, entry, moment_ms in far]
        parked: list[int] = []
        for one, error in zip(far, await self._copy_publisher.park_again(topic, kind, entries), strict=True):
            if error is None:
                parked.append(one[0])
            else:
                self._far.setdefault(group, []).append(one)
        return parked
