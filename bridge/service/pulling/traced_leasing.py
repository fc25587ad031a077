"""Leases deliveries, and traces each leased message: its span lasts as long as the leasing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from time import time_ns
from typing import TYPE_CHECKING

from bridge.broker.ready.taken import Taken
from bridge.model.errors import Unavailable
from bridge.model.values import Effective, Leased
from bridge.service.context import Context
from bridge.service.pulling.leasing import LeaseTerms, Leasing
from bridge.service.pulling.unacked_leases import UnackedLeases
from bridge.tracing.context import OF_RELEASE

if TYPE_CHECKING:
    from bridge.tracing.deliveries import Deliveries


def leasing(context: Context, unacked: UnackedLeases) -> Leasing:
    """Makes the `Leasing` of a pool: a traced one if the pool's context has `tracing`."""
    return Leasing(context, unacked) if context.tracing is None else TracedLeasing(context, unacked, context.tracing)


class TracedLeasing(Leasing):
    def __init__(self, context: Context, unacked: UnackedLeases, tracing: Deliveries) -> None:
        super().__init__(context, unacked)
        self._tracing = tracing

    async def lease(
        self, topic: str, taken: Sequence[tuple[Taken, LeaseTerms]], policy: Effective
    ) -> list[Leased | Unavailable | None]:
        since_ns = time_ns()
        results = await super().lease(topic, taken, policy)
        return [
            self._traced(delivery, result, since_ns) if isinstance(result, Leased) else result
            for (delivery, _), result in zip(taken, results, strict=True)
        ]

    def _traced(self, delivery: Taken, leased: Leased, since_ns: int) -> Leased:
        released = str((delivery.properties.headers or {}).get(OF_RELEASE, ""))
        span = self._tracing.pulled(leased.message, delivery.queue, within=released, since_ns=since_ns)
        if span is not None:
            span.end()
        # If the release is not recorded in a trace, there is no span for the pull, and none for a callback.
        return replace(leased, traced_as=released if span is None else span.context)
