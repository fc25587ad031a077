"""Samples the figures of all pools, at most once in about two seconds, however many clients look at them.

After a sample the sampler rests for nine times as long as Redis took to count, but for ten seconds at most. So a large
number of topics slows down the sampling, and not Redis. The wait for a server that does not answer does not lengthen
the rest: an operator who looks for the fault needs new figures.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic, time
from typing import Final

from bridge.metrics import flow
from bridge.metrics.flow import FlowCounts, Lateness
from bridge.model.errors import Unavailable
from bridge.model.message import SHOWN_STATES
from bridge.model.values import Policy
from bridge.service.health.health import Health
from bridge.service.pools.due_bins import EDGES_MS, DueBins, due_bins
from bridge.service.pools.worker_rpc import WorkerRpc
from bridge.service.service import Service
from bridge.store.pages import Counts

EVERY_S: Final = 2.0
_REST: Final = 9
_LONGEST_REST_S: Final = 10.0  # also after a count during which Redis stood still for a moment
_LATENESS_OVER_S: Final = 60.0


@dataclass(frozen=True, kw_only=True, slots=True)
class TopicFigures:
    """The messages of one topic. `by_state`: how many, by the state's label. `oldest_overdue_ms`: for how long the
    oldest waiting message has been due; 0: none is overdue, or the topic is paused. `oldest_ready_ms`: for how long the
    oldest ready message has been due; 0: there is none."""

    by_state: Mapping[str, int]
    due: DueBins
    oldest_overdue_ms: int
    oldest_ready_ms: int
    paused: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Sample:
    """The figures of one moment. `at_ms`: when the servers were asked, in Unix ms. `missing`: the pools whose Redis did
    not answer. `rates`: messages a second, by counter (`flow.STEPS`, such as `released`) and then by topic; None in the
    first sample. `lateness`: how late the releases of about the last minute were; None in the first sample. `queues`:
    the numbers of messages in the bridge's own queues; None if a RabbitMQ did not answer."""

    at_ms: int
    health: Health
    topics: Mapping[str, TopicFigures]
    missing: list[str]
    rates: Mapping[str, Mapping[str, float]] | None
    lateness: Lateness | None
    queues: Mapping[str, int] | None


class Overview:
    """Samples the figures of all pools, for one process. `health`: returns the health of all worker processes of its
    `serve`. `worker_rpc`: asks the other worker processes for their counts."""

    def __init__(
        self, services: Mapping[str, Service], health: Callable[[], Awaitable[Health]], worker_rpc: WorkerRpc
    ) -> None:
        self._services = services
        self._health = health
        self._worker_rpc = worker_rpc
        self._one_at_a_time = asyncio.Lock()
        self._latest: Sample | None = None
        self._again_s = 0.0
        self._counted: deque[FlowCounts] = deque()  # of the last minute
        self._stopping = asyncio.Event()

    async def sample(self) -> Sample:
        """Returns the latest sample, or takes a new one if the rest after the latest sample is over."""
        async with self._one_at_a_time:
            if self._latest is None or monotonic() >= self._again_s:
                self._latest, counting_s = await self._sample()
                rest_s = min(_REST * counting_s, _LONGEST_REST_S)
                self._again_s = monotonic() + max(EVERY_S * 0.9, rest_s)
            return self._latest

    async def rest(self) -> bool:
        """Waits for two seconds, after which `sample` may return a new one. Returns False if the process stops."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._stopping.wait(), EVERY_S)
        return not self._stopping.is_set()

    def end(self) -> None:
        """Ends all calls of `rest` that wait, because the process stops."""
        self._stopping.set()

    async def _sample(self) -> tuple[Sample, float]:
        """Takes a sample. Asks all servers at once, so if several are silent, the sample takes the longest time limit
        and not the sum. Also returns the seconds that Redis took to count."""
        services = self._services
        at_ms, at_s = int(time() * 1_000), monotonic()
        health, here, others, pools, queues = await asyncio.gather(
            self._health(),
            flow.counted_here(),
            self._worker_rpc.ask("counted"),
            asyncio.gather(*map(_figures, services.values())),
            asyncio.gather(*map(_queues, services.values())),
        )
        now = flow.summed(at_s, (here, *others.values()))
        while self._counted and self._counted[0].at_s < now.at_s - _LATENESS_OVER_S:
            self._counted.popleft()
        before, first = (self._counted[-1], self._counted[0]) if self._counted else (None, None)
        self._counted.append(now)
        sample = Sample(
            at_ms=at_ms,
            health=health,
            topics={topic: of_topic for of_pool in pools if of_pool for topic, of_topic in of_pool.topics.items()},
            missing=[name for name, of_pool in zip(services, pools, strict=True) if of_pool is None],
            rates=None if before is None else flow.rates(before, now),
            lateness=None if first is None else flow.lateness(first, now),
            queues=_summed(queues),
        )
        return sample, max((of_pool.took_s for of_pool in pools if of_pool), default=0.0)


@dataclass(frozen=True, slots=True)
class _PoolFigures:
    """The figures of the topics of one pool, and the seconds that its Redis took to count them."""

    topics: Mapping[str, TopicFigures]
    took_s: float


async def _figures(service: Service) -> _PoolFigures | None:
    """Returns the figures of a pool's topics; None if the pool's Redis did not answer."""
    began_s = monotonic()
    try:
        counted = await service.context.topics.counted(EDGES_MS)
    except Unavailable:
        return None
    figures = {topic: _topic_figures(*of_topic) for topic, of_topic in counted.items()}
    return _PoolFigures(figures, monotonic() - began_s)


async def _queues(service: Service) -> dict[str, int] | None:
    try:
        return await service.context.broker.depths()
    except Unavailable:
        return None


def _summed(queues: list[dict[str, int] | None]) -> dict[str, int] | None:
    sums: dict[str, int] = {}
    for of_pool in queues:
        if of_pool is None:
            return None
        for queue, messages in of_pool.items():
            sums[queue] = sums.get(queue, 0) + messages
    return sums


def _topic_figures(counted: Counts, policy: Policy) -> TopicFigures:
    return TopicFigures(
        by_state={state.label: count for state, count in zip(SHOWN_STATES, counted.by_state, strict=True)},
        due=due_bins(counted.by_due),
        oldest_overdue_ms=counted.oldest_waiting_ms,
        oldest_ready_ms=counted.oldest_ready_ms,
        paused=policy.paused,
    )
