"""Health and metrics of this process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel
from starlette.responses import Response

from bridge.access.decision import Need
from bridge.access.token import Scope
from bridge.http import problems
from bridge.http.v1.call import Call, json_answer
from bridge.http.v1.operation import Answer, Operation

if TYPE_CHECKING:
    from bridge.service.pools import Pools


class LiveOut(BaseModel):
    status: str


class FindingOut(BaseModel):
    severity: Literal["error", "warning"]
    says: str


class ReadyOut(LiveOut):
    parts: dict[str, str]
    policies: str
    findings: list[FindingOut]


async def live(pools: Pools, call: Call) -> Response:
    """The process runs."""
    return json_answer({"status": "ok"})


async def ready(pools: Pools, call: Call) -> Response:
    """The broker, Redis and each loop, with its state, and what the last look at the servers found; 503 where a part is
    not well, or a finding breaks a promise. `degraded`: a finding may break one, or makes messages late. Of several
    pools one has to be well, and `degraded` says that another one is not. Of several worker processes all have to be
    well."""
    health = await pools.health()
    findings = [{"severity": one.severity, "says": one.says} for one in health.findings]
    told = {"parts": health.parts, "policies": health.policies, "findings": findings}
    if health.ok:
        well = not findings and all(state == "ok" for state in health.parts.values())
        return json_answer({"status": "ok" if well else "degraded", **told})
    failing = [f"{part}: {state}" for part, state in health.parts.items() if state != "ok"]
    failing += [one.says for one in health.findings if one.severity == "error"]
    return call.problem(problems.NOT_READY, ", ".join(failing), headers={"Retry-After": "1"}, **told)


async def scrape(pools: Pools, call: Call) -> Response:
    """What the process counts, and its other worker processes with it, for Prometheus."""
    body, content_type = await pools.exposition()
    return Response(body, media_type=content_type)


_PARTS = {"broker": "ok", "store": "ok", "checkpoint": "ok", "acks": "ok", "audit": "ok", "watch": "ok", "push": "ok"}
_WELL = {"status": "ok", "parts": _PARTS, "policies": "looked at", "findings": []}

OPERATIONS = (
    Operation(
        name="live",
        group="health",
        method="GET",
        path="/health/live",
        run=live,
        need=None,
        answers={200: Answer(says="It runs", model=LiveOut, example={"status": "ok"})},
        problems=(),
    ),
    Operation(
        name="ready",
        group="health",
        method="GET",
        path="/health/ready",
        run=ready,
        need=None,
        answers={200: Answer(says="All is well", model=ReadyOut, example=_WELL)},
        problems=(503,),
    ),
    Operation(
        name="metrics",
        group="health",
        method="GET",
        path="/metrics",
        run=scrape,
        need=Need(scope=Scope.LOOK, every_topic=True),
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
