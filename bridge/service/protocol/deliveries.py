"""Settles deliveries: carries out the work for each delivery, and then acknowledges, requeues or holds the delivery.

    ┌──────┐  step: performed  ┌───────┐
    │ Work │ ────────────────> │ after │ ──> Acked, Requeued or Held
    └──────┘                   └───────┘
        ^                          │
        └───── further work ───────┘

Work is pure: `after` only decides. So all deliveries of a batch share one burst of publishes and one pipeline of calls
in each round.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Any, Generic, Protocol

from bridge.broker.ready.taken import Taken, ack_all
from bridge.model.errors import Unavailable
from bridge.model.fast_dataclass import fast_dataclass
from bridge.service.protocol.steps import Result, Step, V
from bridge.service.protocol.succession import Succession


@fast_dataclass(frozen=True, slots=True)
class Acked(Generic[V]):
    """The delivery is acknowledged: RabbitMQ has the copy's successor, or the copy needs none."""

    result: Result[V]


@fast_dataclass(frozen=True, slots=True)
class Requeued(Generic[V]):
    """RabbitMQ delivers the message again, and counts that towards the delivery limit of its queue."""

    result: Result[V]


@fast_dataclass(frozen=True, slots=True)
class Held(Generic[V]):
    """The delivery stays unacknowledged. The caller of `settle` takes it over."""

    result: Result[V]


Settlement = Acked[V] | Requeued[V] | Held[V]
"""How a delivery is settled. `result`: the result of the step that decided this."""


class Work(Protocol[V]):
    """The work for one delivery: a step, and the decision that follows from the step's result. `after` alone interprets
    the verdicts of the step."""

    @property
    def step(self) -> Step[Any]: ...

    def after(self, result: Any) -> Settlement[V] | Work[V]:
        """Returns how the delivery is settled after this result of `step`, or further work for the delivery. Pure."""
        ...


@fast_dataclass(frozen=True, slots=True)
class Put(Generic[V]):
    """Work that publishes the message again, into its ready queue or the wheel. If that fails, the delivery is
    requeued. `result`: the result that the settlement gets."""

    step: Step[StrEnum]
    result: Result[V] = None

    def after(self, result: Result[StrEnum]) -> Settlement[V]:
        return Requeued(self.result) if isinstance(result, Unavailable) else Acked(self.result)


async def settle(succession: Succession, deliveries: Sequence[Taken], works: Sequence[Work[V]]) -> list[Settlement[V]]:
    """Carries out the work of each delivery, and settles the deliveries. Returns how each delivery was settled, in
    order. If a bug or a cancellation ends the call, requeues all deliveries that are not acknowledged or requeued yet.
    """
    unsettled, settled = dict(enumerate(deliveries)), dict[int, Settlement[V]]()
    under_way = dict(enumerate(works))
    try:
        while under_way:
            results = await succession.perform([work.step for work in under_way.values()])
            further: dict[int, Work[V]] = {}
            acked: list[int] = []
            requeued: list[int] = []
            for (at, work), result in zip(under_way.items(), results, strict=True):
                match work.after(result):
                    case Acked() as settlement:
                        settled[at] = settlement
                        acked.append(at)
                    case Requeued() as settlement:
                        settled[at] = settlement
                        requeued.append(at)
                    case Held() as settlement:
                        settled[at] = settlement
                    case more:
                        further[at] = more
            ack_all([unsettled.pop(at) for at in acked])
            for at in requeued:
                unsettled.pop(at).requeue()
            under_way = further
    except BaseException:
        for delivery in unsettled.values():
            delivery.requeue()
        raise
    return [settled[at] for at in range(len(deliveries))]
