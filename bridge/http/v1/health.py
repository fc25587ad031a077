"""Answers requests for the health and the metrics of this process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from starlette.responses import Response

from bridge.access.decision import Need
from bridge.access.token import Scope
from bridge.http import problems
from bridge.http.problems import FindingOut, findings_out
from bridge.http.structs import Answer
from bridge.http.v1.operation.call import ApiCall, JsonAnswer
from bridge.http.v1.operation.operation import Operation, ResponseDoc
from bridge.model.unread_bytes import MAKING

if TYPE_CHECKING:
    from bridge.service.pools.pools import Pools


class LiveOut(Answer):
    status: str


class ReadyOut(LiveOut):
    parts: Mapping[str, str]
    policies: str
    findings: list[FindingOut]


async def live(pools: Pools, call: ApiCall) -> Response:
    """Answers 200 as long as the process runs, and asks neither RabbitMQ nor Redis."""
    return JsonAnswer(LiveOut(status="ok"))


async def ready(pools: Pools, call: ApiCall) -> Response:
    """Returns the state of RabbitMQ, Redis and each loop, and the findings of the last check of the servers.

    200 with status `ok`: everything works. 200 with status `degraded`: a loop fails or waits, a finding may break a
    promise or may delay messages, or one of several pools is not ready. 503: a send would fail, a loop has not begun
    yet, the process stops, or a finding breaks a promise. With several pools, 503 means that no pool is ready. With
    several worker processes, each must be ready.
    """
    health = await pools.health()
    findings = findings_out(health)
    if (making := MAKING.get()) is not None and making.unread.is_full:
        findings.append(FindingOut(severity="warning", says=str(making.unread.refusal()), remedy=""))
    if health.ok:
        all_ok = not findings and all(state == "ok" for state in health.parts.values())
        return JsonAnswer(
            ReadyOut(
                status="ok" if all_ok else "degraded",
                parts=health.parts,
                policies=health.policies,
                findings=findings,
            )
        )
    failing = [f"{part}: {state}" for part, state in health.parts.items() if state != "ok"]
    failing += [finding.says for finding in health.findings if finding.severity == "error"]
    return call.problem(
        problems.NOT_READY,
        ", ".join(failing),
        headers={"Retry-After": "1"},
        parts=health.parts,
        policies=health.policies,
        findings=findings,
    )


async def scrape(pools: Pools, call: ApiCall) -> Response:
    """Returns the metrics of this process, and of its other worker processes, in Prometheus' text format."""
    body, content_type = await pools.exposition()
    return Response(body, media_type=content_type)


_PARTS = {"broker": "ok", "store": "ok", "checkpoint": "ok", "acks": "ok", "audit": "ok", "watch": "ok", "push": "ok"}
_READY = {"status": "ok", "parts": _PARTS, "policies": "looked at", "findings": []}

OPERATIONS = (
    Operation(
        name="live",
        summary="Is the process alive?",
        group="health",
        method="GET",
        path="/health/live",
        run=live,
        need=None,
        answers={200: ResponseDoc(description="The process runs", model=LiveOut, example={"status": "ok"})},
        problems=(),
    ),
    Operation(
        name="ready",
        summary="Is the bridge ready?",
        group="health",
        method="GET",
        path="/health/ready",
        run=ready,
        need=None,
        answers={200: ResponseDoc(description="The bridge is ready", model=ReadyOut, example=_READY)},
        problems=(503,),
    ),
    Operation(
        name="metrics",
        summary="Metrics for Prometheus",
        group="health",
        method="GET",
        path="/metrics",
        run=scrape,
        need=Need(scope=Scope.LOOK, every_topic=True),
        answers={
            200: ResponseDoc(
                description="The metrics in Prometheus' text format",
                media_type="text/plain",
                example='delaybridge_accepted_total{topic="orders"} 120.0\n',
            )
        },
        problems=(),
    ),
)
