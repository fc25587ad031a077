"""Health and metrics of this process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import BaseModel
from starlette.responses import Response

from bridge import metrics
from bridge.http import problems
from bridge.http.v1.call import Call, json_answer
from bridge.http.v1.operation import Answer, Operation

if TYPE_CHECKING:
    from bridge.service.service import Service


class LiveOut(BaseModel):
    status: str


class ReadyOut(LiveOut):
    parts: dict[str, str]


async def live(service: Service, call: Call) -> Response:
    """The process runs."""
    return json_answer({"status": "ok"})


async def ready(service: Service, call: Call) -> Response:
    """The broker, Redis, the checkpoint and the reports of acks, each with its state; 503 where one is not well."""
    health = await service.health()
    if health.ok:
        return json_answer({"status": "ok", "parts": health.parts})
    failing = ", ".join(f"{part}: {state}" for part, state in health.parts.items() if state != "ok")
    return call.problem(problems.NOT_READY, failing, headers={"Retry-After": "1"}, parts=health.parts)


async def scrape(service: Service, call: Call) -> Response:
    """What the process counts, for Prometheus."""
    await service.gauge()
    body, content_type = metrics.render()
    return Response(body, media_type=content_type)


_WELL = {"broker": "ok", "store": "ok", "checkpoint": "ok", "acks": "ok", "audit": "ok"}

OPERATIONS = (
    Operation(
        name="live",
        group="health",
        method="GET",
        path="/health/live",
        run=live,
        answers={200: Answer(says="It runs", model=LiveOut, example={"status": "ok"})},
        problems=(),
    ),
    Operation(
        name="ready",
        group="health",
        method="GET",
        path="/health/ready",
        run=ready,
        answers={200: Answer(says="All is well", model=ReadyOut, example={"status": "ok", "parts": _WELL})},
        problems=(503,),
    ),
    Operation(
        name="metrics",
        group="health",
        method="GET",
        path="/metrics",
        run=scrape,
        answers={
            200: Answer(
                says="Prometheus text format",
                media_type="text/plain",
                example='delaybridge_accepted_total{topic="orders"} 120.0\n',
            )
        },
        problems=(),
    ),
)
