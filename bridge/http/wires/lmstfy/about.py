"""Answers the admin port's calls about the server itself: queues, version, pools, metrics and access log."""

from __future__ import annotations

from importlib.metadata import version
from typing import Final

from starlette.responses import Response

from bridge.http.wires.lmstfy import exposition
from bridge.http.wires.lmstfy.answers import Refusal, answer, as_indented, indented, text
from bridge.http.wires.lmstfy.request import WireRequest

_STATUS: Final = {True: "enabled", False: "disabled"}


async def info(request: WireRequest) -> Response:
    """Lists the queues of the pool that the query names, by namespace. The answer for an unknown pool has no body."""
    pool = request.query.values.get("pool", "")
    if not request.wire.has_pool(pool):
        return Response()
    queues_by_namespace: dict[str, list[str]] = {}
    for namespace, queue in sorted((await request.wire.queues(pool)).values()):
        queues_by_namespace.setdefault(namespace, []).append(queue)
    return text(200, as_indented(queues_by_namespace) + b"\n")


async def versions(request: WireRequest) -> Response:
    return indented(200, {"version": version("delaybridge"), "build_commit": "", "build_date": ""})


async def pools(request: WireRequest) -> Response:
    return indented(200, request.wire.pool_names())


async def metrics(request: WireRequest) -> Response:
    await request.wire.measure()
    return Response(request.wire.metrics.render(), headers={"Content-Type": exposition.CONTENT_TYPE})


async def access_log(request: WireRequest) -> Response:
    return answer(200, status=_STATUS[request.wire.logs_access])


async def set_access_log(request: WireRequest) -> Response:
    """Switches lmstfy's access log in this process on or off, until the process ends. 400: `status` is neither `enable`
    nor `disable`."""
    enabled = {"enable": True, "disable": False}.get(request.query.values.get("status", ""))
    if enabled is None:
        raise Refusal(400, error="invalid status")
    request.wire.logs_access = enabled
    return answer(200, status=_STATUS[enabled])


async def profiles(request: WireRequest) -> Response:
    return text(404, "delaybridge is not a Go program and has no pprof profiles.\n")
