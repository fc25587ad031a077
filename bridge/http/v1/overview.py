"""Shows at a glance whether messages are on time: the figures of all topics together, and the slots of the wheel."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, Final

from pydantic import BaseModel, Field
from starlette.responses import Response

from bridge.access.caller import Caller
from bridge.access.decision import Need
from bridge.access.token import Scope
from bridge.http.v1.contract.queries import NoQuery
from bridge.http.v1.contract.results import FindingOut
from bridge.http.v1.contract.scalars import ShownInstant
from bridge.http.v1.document import examples
from bridge.http.v1.operation.call import ApiCall, json_answer
from bridge.http.v1.operation.operation import Operation, ResponseDoc
from bridge.metrics.topics import OTHER
from bridge.model.durations import format_instant
from bridge.service.pools.due_bins import summed
from bridge.service.pools.overview import Sample, TopicFigures

if TYPE_CHECKING:
    from bridge.service.pools.pools import Pools

_WORST: Final = 10


class DueOut(BaseModel):
    """Waiting messages by due moment. Each list has twelve counts: of the next minute by 5 seconds, of the next hour by
    5 minutes, of the next day by 2 hours."""

    overdue: int
    minute: list[int]
    hour: list[int]
    day: list[int]
    later: int


class LatenessOut(BaseModel):
    """How late releases were, of all topics. A percentile is the upper bound of a bucket of
    `delaybridge_release_lag_seconds`."""

    released: int
    late: Annotated[int, Field(description="released more than 100 ms late")]
    p50_ms: float | None
    p99_ms: float | None
    over_s: Annotated[float, Field(description="the seconds over which they are counted, at most 60")]


class WorstOut(BaseModel):
    topic: str
    overdue: int
    oldest_overdue_ms: int
    ready: int
    oldest_ready_ms: int
    dead: int
    paused: bool


class OverviewOut(BaseModel):
    at: ShownInstant
    ok: Annotated[bool, Field(description="as `/health/ready`")]
    parts: dict[str, str]
    findings: list[FindingOut]
    missing: Annotated[list[str], Field(description="pools whose Redis did not answer; their topics are left out")]
    topics: Annotated[int | None, Field(description="null, as the figures that follow: no Redis answered")]
    paused: Annotated[int | None, Field(description="paused topics")]
    counts: Annotated[dict[str, int] | None, Field(description="messages by state")]
    due: DueOut | None
    oldest_overdue_ms: Annotated[
        int | None, Field(description="of topics that are not paused; 0: no message is overdue")
    ]
    oldest_ready_ms: int | None
    rates: Annotated[
        dict[str, float] | None,
        Field(description="messages a second: accepted, released, delivered, acked, dead; null in a first answer"),
    ]
    lateness: LatenessOut | None
    queues: Annotated[
        dict[str, int] | None,
        Field(description="messages in the bridge's own queues; null: RabbitMQ did not answer, or a token of topics"),
    ]
    worst: Annotated[
        list[WorstOut], Field(description="up to ten topics, first by the age of their oldest overdue message")
    ]
    queues_pages: Annotated[
        dict[str, str | None],
        Field(description="RabbitMQ's page of queues by namespace; under the empty name for all others"),
    ]


async def overview(pools: Pools, call: ApiCall) -> Response:
    """Returns the figures of all topics together. With a token: of the topics that it may use.

    Counts are those of Redis. Rates and lateness are those of the process that answers and of its other worker
    processes, over the time since its sample before. A process samples at most every two seconds."""
    call.query(NoQuery)
    return json_answer(overview_json(await pools.overview.sample(), pools, call.caller))


def overview_json(sample: Sample, pools: Pools, caller: Caller) -> dict[str, Any]:
    """Returns the sample as `OverviewOut` documents it, with the topics that the caller may see."""
    seen = {topic: figures for topic, figures in sample.topics.items() if caller.sees(topic)}
    all_seen = len(seen) == len(sample.topics) and caller.sees(None)
    return {
        "at": format_instant(sample.at_ms),
        "ok": sample.health.ok,
        "parts": sample.health.parts,
        "findings": [asdict(finding) for finding in sample.health.findings],
        "missing": sample.missing,
        **(_NO_STATE if len(sample.missing) == len(pools.services) else _state_json(list(seen.values()))),
        "rates": sample.rates
        and {
            step: round(sum(rate for topic, rate in by_topic.items() if all_seen or _sees(caller, topic)), 2)
            for step, by_topic in sample.rates.items()
        },
        "lateness": sample.lateness and asdict(sample.lateness),
        "queues": sample.queues if all_seen else None,
        "worst": [_worst_json(topic, one) for topic, one in sorted(seen.items(), key=_badness, reverse=True)[:_WORST]],
        "queues_pages": pools.queues_pages(),
    }


_STATES: Final = ("waiting", "ready", "leased", "dead")
_NO_STATE: Final = dict.fromkeys(("topics", "paused", "counts", "due", "oldest_overdue_ms", "oldest_ready_ms"))


def _state_json(figures: list[TopicFigures]) -> dict[str, Any]:
    return {
        "topics": len(figures),
        "paused": sum(one.paused for one in figures),
        "counts": {state: sum(one.by_state[state] for one in figures) for state in _STATES},
        "due": asdict(summed([one.due for one in figures])),
        "oldest_overdue_ms": max((one.oldest_overdue_ms for one in figures), default=0),
        "oldest_ready_ms": max((one.oldest_ready_ms for one in figures), default=0),
    }


def _sees(caller: Caller, label: str) -> bool:
    return label != OTHER and caller.sees(label)


def _badness(item: tuple[str, TopicFigures]) -> tuple[int, int, int]:
    figures = item[1]
    return figures.oldest_overdue_ms, figures.oldest_ready_ms, figures.by_state["dead"]


def _worst_json(topic: str, figures: TopicFigures) -> dict[str, Any]:
    return {
        "topic": topic,
        "overdue": figures.due.overdue,
        "oldest_overdue_ms": figures.oldest_overdue_ms,
        "ready": figures.by_state["ready"],
        "oldest_ready_ms": figures.oldest_ready_ms,
        "dead": figures.by_state["dead"],
        "paused": figures.paused,
    }


class SlotOut(BaseModel):
    pool: str
    slot: Annotated[str, Field(description="the name of its queue in the first lane")]
    wait_ms: Annotated[int, Field(description="how long a copy waits in it")]
    in_rabbitmq: Annotated[int, Field(description="the queue's length, of all lanes; a bundle counts as one")]
    messages: Annotated[int, Field(description="waiting messages with at least `wait_ms` left, below the next slot's")]


class SlotsOut(BaseModel):
    slots: Annotated[list[SlotOut], Field(description="the shortest wait first")]
    overdue: Annotated[int, Field(description="waiting messages that are past due")]
    soon: Annotated[int, Field(description="waiting messages that are due before the shortest wait has passed")]
    in_checkpoint: Annotated[int, Field(description="messages in the checkpoint's queues")]


async def list_slots(pools: Pools, call: ApiCall) -> Response:
    """Returns each slot of the wheel with its length in RabbitMQ, and with the messages that wait.

    Length and messages differ. A bundle counts as one in RabbitMQ, and copies of leases and ghosts count too. A copy
    stays in its slot while less of its delay is left, but `messages` counts by what is left. So `messages` of all
    slots, `overdue` and `soon` add up to all waiting messages."""
    call.query(NoQuery)
    of_pools = await pools.slots()
    return json_answer(
        {
            "slots": [
                {
                    "pool": slot.pool,
                    "slot": slot.name,
                    "wait_ms": slot.wait_ms,
                    "in_rabbitmq": slot.in_rabbitmq,
                    "messages": slot.messages,
                }
                for of_pool in of_pools
                for slot in of_pool.slots
            ],
            "overdue": sum(of_pool.overdue for of_pool in of_pools),
            "soon": sum(of_pool.soon for of_pool in of_pools),
            "in_checkpoint": sum(of_pool.in_checkpoint for of_pool in of_pools),
        }
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
