"""Holds the opened bundles of one channel, and takes their copies out when they are due."""

from __future__ import annotations

from collections.abc import Iterator
from time import time
from typing import Final

from bridge.broker.copies.classify import Bundle, Due, Unusable, due_of
from bridge.broker.copies.open_bundle import OpenBundle
from bridge.broker.copies.windows import NEAR_MS
from bridge.broker.publications import short_ms
from bridge.loops.checkpoint.batches import RETRY_MS
from bridge.loops.checkpoint.bundle_refs import BundleRefs
from bridge.loops.checkpoint.flight import AT_ONCE
from bridge.loops.checkpoint.moments import ask_at_ms, early_ms
from bridge.loops.checkpoint.parking import Parking
from bridge.model.clock_step import STEP_MS
from bridge.settings.settings import Settings

# The most unfinished copies out of bundles, in addition to the batches in flight. While Redis is away, this stops the
# reading of copies: a copy that is read takes several times its memory, and Redis is asked about it again and again.
_READ_AT_MOST: Final = 16_384


class OpenedBundles:
    """The opened bundles of one channel. `refs`: counts their unfinished copies. `parking`: gets copies that are far
    from due."""

    def __init__(self, settings: Settings, parking: Parking) -> None:
        self.refs = BundleRefs(most=AT_ONCE * settings.checkpoint_batch + _READ_AT_MOST)
        self._parking = parking
        self._bundled = settings.bundles
        self._open: dict[int, OpenBundle] = {}  # by tag; with copies that are not due yet

    def take(
        self, bundle: Bundle | OpenBundle, own_ms: float, now_ms: float, ahead_ms: float
    ) -> Iterator[tuple[Due | Bundle | OpenBundle | Unusable, float]]:
        """Yields the copies of a bundle that are due, and then the bundle itself if more of its copies are due soon.
        Each result has the ms until the checkpoint handles it; 0: now.

        Copies that are far from due go back into the wheel. With bundles switched off, yields all copies. While too
        many copies are unfinished, yields only the bundle. A bundle that can't be read yields one `Unusable`.

        `own_ms`: now, by this process's monotonic clock. `now_ms`: now, by Redis' clock, in Unix ms. `ahead_ms`: an
        upper bound, in ms: how far Redis' clock has jumped ahead since it gave the due moments.
        """
        if not self.refs.has_room(bundle.count):
            yield bundle, RETRY_MS
            return
        opened = bundle if isinstance(bundle, OpenBundle) else bundle.open()
        if isinstance(opened, Unusable):
            yield opened, 0
            return
        if isinstance(bundle, Bundle):
            late_ms = now_ms - bundle.due_ms
            in_queue_ms = bundle.in_queue_ms(time() * 1_000) if abs(late_ms) > STEP_MS else 0
            step_ms = step_of(late_ms, in_queue_ms, ahead_ms)
            opened.arrived(own_ms, now_ms, short_ms(), in_queue_ms=in_queue_ms or 0, step_ms=step_ms)
            self.refs.opened(opened.tag, opened.left)
            self._open[opened.tag] = opened
        asked_ms = own_ms + early_ms(opened.kind)
        if self._bundled:
            self._parking.add(opened, opened.far(own_ms))
            entries = opened.due(asked_ms)
        else:
            # Bundles are off. The checkpoint asks about all copies now, and puts copies that are not due back into the
            # wheel one by one.
            entries = [entry for entry, _ in opened.rest(own_ms)]
        self.refs.read(len(entries))
        for entry in entries:
            copy = due_of(opened, entry, now_ms=int(now_ms))
            yield copy, max(0, ask_at_ms(copy, now_ms) - now_ms)
        if opened.left:
            yield opened, min(opened.left_ms(asked_ms), NEAR_MS)
        else:
            del self._open[opened.tag]

    def park_all(self, own_ms: float) -> None:
        """Parks all copies that are left in the bundles, because the process stops. If it requeued a bundle, RabbitMQ
        would redeliver copies that were released already."""
        for bundle in self._open.values():
            self._parking.add(bundle, bundle.rest(own_ms))
        self._open.clear()
        self._parking.end()


def step_of(late_ms: float, in_queue_ms: float | None, ahead_ms: float) -> float:
    """Returns an estimate: by how many ms Redis' clock has jumped ahead since a bundle's due moments were written; 0:
    it may not have jumped. `late_ms`: by how many ms the bundle is late by Redis' clock.

    `in_queue_ms`: how long the bundle has waited in the checkpoint's queue, in ms: a lower bound. None: unknown.
    `ahead_ms`: the sum of the jumps ahead that this process has noticed, which limits the result. A bundle may also be
    late because RabbitMQ was down: then RabbitMQ writes `x-death` late.
    """
    return 0 if in_queue_ms is None else max(0, min(late_ms - in_queue_ms, ahead_ms))
