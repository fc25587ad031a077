"""The admin port's calls on the server itself."""

from __future__ import annotations

from importlib.metadata import version
from typing import Final

from starlette.responses import Response

from bridge.http.wires.lmstfy import exposition
from bridge.http.wires.lmstfy.answers import Refusal, answer, as_indented, indented, text
from bridge.http.wires.lmstfy.request import LmstfyRequest

_STATUS: Final = {True: "enabled", False: "disabled"}


async def info(exchange: LmstfyRequest) -> Response:
    """Queues by namespace; of a pool that there is not, nothing at all."""
    pool = exchange.query.values.get("pool", "")
    if exchange.wire.pools.of(pool) is None:
        return text(200, "")
    found: dict[str, list[str]] = {}
    for namespace, queue in sorted((await exchange.wire.queues(pool)).values()):
        found.setdefault(namespace, []).append(queue)
    return text(200, as_indented(found) + b"\n")


async def versions(exchange: LmstfyRequest) -> Response:
    return indented(200, {"version": version("delaybridge"), "build_commit": "", "build_date": ""})


async def pools(exchange: LmstfyRequest) -> Response:
    return indented(200, exchange.wire.pools.names())


async def metrics(exchange: LmstfyRequest) -> Response:
    await exchange.wire.measure()
    return Response(exchange.wire.metrics.render(), headers={"Content-Type": exposition.CONTENT_TYPE})


async def access_log(exchange: LmstfyRequest) -> Response:
    return answer(200, status=_STATUS[exchange.wire.logs_access])


async def set_access_log(exchange: LmstfyRequest) -> Response:
    """Of this process, until it ends."""
    wanted = {"enable": True, "disable": False}.get(exchange.query.values.get("status", ""))
    if wanted is None:
        raise Refusal(400, error="invalid status")
    exchange.wire.logs_access = wanted
    return answer(200, status=_STATUS[wanted])


async def profiles(exchange: LmstfyRequest) -> Response:
    return text(404, "This is no Go program: there are no profiles of it.\n")
