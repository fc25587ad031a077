"""Shows at a glance whether messages are on time: the figures of all topics together, and the slots of the wheel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Final

from msgspec import Meta
from starlette.responses import Response

from bridge.access.caller import Caller
from bridge.access.decision import Need
from bridge.access.token import Scope
from bridge.http.problems import FindingOut, findings_out
from bridge.http.structs import Answer
from bridge.http.v1.contract.queries import NoQuery
from bridge.http.v1.contract.scalars import ShownInstant
from bridge.http.v1.document import examples
from bridge.http.v1.operation.call import ApiCall, JsonAnswer
from bridge.http.v1.operation.operation import Operation, ResponseDoc
from bridge.metrics.topics import OTHER
from bridge.model.durations import format_instant
from bridge.service.pools.due_bins import summed
from bridge.service.pools.overview import Sample, TopicFigures

if TYPE_CHECKING:
    from bridge.service.pools.pools import Pools

_WORST: Final = 10


class DueOut(Answer):
    """Waiting messages by due moment. Each list has twelve counts: of the next minute by 5 seconds, of the next hour by
    5 minutes, of the next day by 2 hours. The lists overlap: `hour` includes the messages of `minute`, and `day` those
    of `hour`."""

    overdue: int
    minute: list[int]
    hour: list[int]
    day: list[int]
    later: int


class LatenessOut(Answer):
    """How late the releases of all topics were, over the last `over_s` seconds. A percentile is rounded up to a bound
    of the buckets of `delaybridge_release_lag_seconds`. null: no release, or a percentile above 600 s."""

    released: int
    late: Annotated[int, Meta(description="released more than 100 ms late")]
    p50_ms: float | None
    p99_ms: float | None
    over_s: Annotated[float, Meta(description="the seconds over which they are counted, at most 60")]


class WorstOut(Answer):
    topic: str
    overdue: int
    oldest_overdue_ms: int
    ready: int
    oldest_ready_ms: int
    dead: int
    paused: bool


class OverviewOut(Answer):
    at: ShownInstant
    ok: Annotated[bool, Meta(description="as `/health/ready`")]
    parts: Mapping[str, str]
    findings: list[FindingOut]
    missing: Annotated[list[str], Meta(description="pools whose Redis did not answer; their topics are left out")]
    topics: Annotated[int | None, Meta(description="null, as the figures that follow: no Redis answered")]
    paused: Annotated[int | None, Meta(description="paused topics")]
    counts: Annotated[Mapping[str, int] | None, Meta(description="messages by state")]
    due: DueOut | None
    oldest_overdue_ms: Annotated[
        int | None, Meta(description="of topics that are not paused; 0: no message is overdue")
    ]
    oldest_ready_ms: int | None
    rates: Annotated[
        Mapping[str, float] | None,
        Meta(description="messages a second: accepted, released, delivered, acked, dead; null in a first answer"),
    ]
    lateness: LatenessOut | None
    queues: Annotated[
        Mapping[str, int] | None,
        Meta(description="messages in the bridge's own queues; null: RabbitMQ did not answer, or a token of topics"),
    ]
    worst: Annotated[
        list[WorstOut], Meta(description="up to ten topics, first by the age of their oldest overdue message")
    ]
    queues_pages: Annotated[
        dict[str, str | None],
        Meta(description="RabbitMQ's page of queues by namespace; under the empty name for all others"),
    ]


async def overview(pools: Pools, call: ApiCall) -> Response:
    """Returns the figures of all topics together. With a token, counts, rates and `worst` cover only topics that the
    token may use. Lateness and health always cover everything.

    Counts come from Redis; rates and lateness from the answering process and its other worker processes. The answering
    process reads the figures at most every two seconds. Rates cover the time since the reading before, and lateness at
    most the last minute."""
    call.query(NoQuery)
    return JsonAnswer(overview_out(await pools.overview.sample(), pools, call.caller))


def overview_out(sample: Sample, pools: Pools, caller: Caller) -> OverviewOut:
    """Returns the answer with the figures of a sample. A sample is one reading of all figures by `Overview`.

    Counts, rates and worst topics cover only topics that the caller may see. Health, lateness and missing pools cover
    everything. For a caller that may not use every topic, `queues` is null, and rates leave out the topics that share
    the metrics' label `_other`.
    """
    seen = {topic: figures for topic, figures in sample.topics.items() if caller.sees(topic)}
    all_seen = len(seen) == len(sample.topics) and caller.sees(None)
    figures = None if len(sample.missing) == len(pools.services) else list(seen.values())
    return OverviewOut(
        at=format_instant(sample.at_ms),
        ok=sample.health.ok,
        parts=sample.health.parts,
        findings=findings_out(sample.health),
        missing=list(sample.missing),
        topics=None if figures is None else len(figures),
        paused=None if figures is None else sum(one.paused for one in figures),
        counts=None if figures is None else {state: sum(one.by_state[state] for one in figures) for state in _STATES},
        due=None if figures is None else DueOut(**asdict(summed([one.due for one in figures]))),
        oldest_overdue_ms=None if figures is None else max((one.oldest_overdue_ms for one in figures), default=0),
        oldest_ready_ms=None if figures is None else max((one.oldest_ready_ms for one in figures), default=0),
        rates=None
        if sample.rates is None
        else {
            step: round(sum(rate for topic, rate in by_topic.items() if all_seen or _sees(caller, topic)), 2)
            for step, by_topic in sample.rates.items()
        },
        lateness=None if sample.lateness is None else LatenessOut(**asdict(sample.lateness)),
        queues=sample.queues if all_seen else None,
        worst=[_worst_out(topic, one) for topic, one in sorted(seen.items(), key=_badness, reverse=True)[:_WORST]],
        queues_pages=pools.queues_pages(),
    )


_STATES: Final = ("waiting", "ready", "leased", "dead")


def _sees(caller: Caller, label: str) -> bool:
    return label != OTHER and caller.sees(label)


def _badness(item: tuple[str, TopicFigures]) -> tuple[int, int, int]:
    figures = item[1]
    return figures.oldest_overdue_ms, figures.oldest_ready_ms, figures.by_state["dead"]


def _worst_out(topic: str, figures: TopicFigures) -> WorstOut:
    return WorstOut(
        topic=topic,
        overdue=figures.due.overdue,
        oldest_overdue_ms=figures.oldest_overdue_ms,
        ready=figures.by_state["ready"],
        oldest_ready_ms=figures.oldest_ready_ms,
        dead=figures.by_state["dead"],
        paused=figures.paused,
    )


class SlotOut(Answer):
    pool: str
    slot: Annotated[str, Meta(description="the name of its queue in the first lane")]
    wait_ms: Annotated[int, Meta(description="how long a copy waits in it")]
    in_rabbitmq: Annotated[int, Meta(description="the queue's length, of all lanes; a bundle counts as one")]
    messages: Annotated[int, Meta(description="waiting messages with at least `wait_ms` left, below the next slot's")]


class SlotsOut(Answer):
    slots: Annotated[list[SlotOut], Meta(description="the shortest wait first")]
    overdue: Annotated[int, Meta(description="waiting messages that are past due")]
    soon: Annotated[int, Meta(description="waiting messages that are due before the shortest wait has passed")]
    in_checkpoint: Annotated[int, Meta(description="messages in the checkpoint's queues")]


async def list_slots(pools: Pools, call: ApiCall) -> Response:
    """Returns each slot of the wheel with two numbers: its length in RabbitMQ (`in_rabbitmq`), and the waiting messages
    whose remaining delay fits the slot (`messages`).

    The two numbers differ. RabbitMQ counts a bundle as one, and also counts copies of leases and ghosts. While a copy
    waits in a slot, its remaining delay shrinks. `messages` then counts it at a shorter slot. `messages` of all slots,
    `overdue` and `soon` add up to all waiting messages.
    """
    call.query(NoQuery)
    of_pools = await pools.slots()
    slots = [
        SlotOut(
            pool=slot.pool,
            slot=slot.name,
            wait_ms=slot.wait_ms,
            in_rabbitmq=slot.in_rabbitmq,
            messages=slot.messages,
        )
        for of_pool in of_pools
        for slot in of_pool.slots
    ]
    return JsonAnswer(
        SlotsOut(
            slots=slots,
            overdue=sum(of_pool.overdue for of_pool in of_pools),
            soon=sum(of_pool.soon for of_pool in of_pools),
            in_checkpoint=sum(of_pool.in_checkpoint for of_pool in of_pools),
        )
    )


OPERATIONS = (
    Operation(
        name="overview",
        summary="See whether messages are on time",
        group="operators",
        method="GET",
        path="/v1/overview",
        run=overview,
        need=Need(scope=Scope.LOOK),
        answers={200: ResponseDoc(description="The figures", model=OverviewOut, example=examples.OVERVIEW)},
    ),
    Operation(
        name="list_slots",
        summary="Compare the slots with the messages that wait",
        group="operators",
        method="GET",
        path="/v1/slots",
        run=list_slots,
        need=Need(scope=Scope.LOOK, every_topic=True),
        answers={200: ResponseDoc(description="All slots", model=SlotsOut, example=examples.SLOTS)},
    ),
)
