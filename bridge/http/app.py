"""The bridge's HTTP application."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI
from starlette.types import Receive, Scope, Send

from bridge.access.access import Access
from bridge.http import problems
from bridge.http.guard import Guard
from bridge.http.server.fast_path import FastPath
from bridge.http.server.limits import BodyLimit
from bridge.http.server.raw_path import RawPath
from bridge.http.server.request_id import RequestId
from bridge.http.v1 import (
    dead,
    health,
    messages,
    openapi,
    pulling,
    sending,
    settling,
    subscribing,
    topics,
)
from bridge.http.v1.operation import TOPIC, add, everywhere
from bridge.http.wires.camellia import wire as camellia
from bridge.http.wires.jobs import changsongl, ouqiang, youzan
from bridge.http.wires.lmstfy.mount import mount as mount_lmstfy
from bridge.http.wires.tasks import wire as tasks
from bridge.settings.roles import Role

if TYPE_CHECKING:
    from bridge.service.service import Service

# A request may be as large as so many of the largest bodies, and all that is beside bodies in a batch.
_LARGEST_BODIES = 16
_BESIDE_BODIES_BYTES = 1024 * 1024

_TAGS = {
    "messages": "Send messages for later; look them up, list, move and delete them.",
    "consuming": "Take ready messages under a lease, and settle them.",
    "dead letters": "What ran out of retries.",
    "topics": "What is in a topic, and what it decides for its messages.",
    "callbacks": "Have a topic's due messages called out to a receiver, signed.",
    "health": "Of this process, and of what it needs.",
}
_BUSIEST = {
    (operation.method, operation.path.removeprefix(TOPIC)): operation
    for operation in (*sending.OPERATIONS, *pulling.OPERATIONS, *settling.OPERATIONS)
    if operation.path.startswith(TOPIC) and "{id}" not in operation.path
}
OPERATIONS = (
    *sending.OPERATIONS,
    *pulling.OPERATIONS,
    *settling.OPERATIONS,
    *messages.OPERATIONS,
    *dead.OPERATIONS,
    *topics.OPERATIONS,
    *subscribing.OPERATIONS,
    *health.OPERATIONS,
)


class _Shortened(FastAPI):
    """With the shortcut in front of all that FastAPI does with a request."""

    def shorten(self, **how: Any) -> None:
        self._shortcut = FastPath(super().__call__, **how)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._shortcut(scope, receive, send)


def create_app(service: Service) -> FastAPI:
    """The application over the service, which it starts and stops. A process without the API has health and metrics.

    Raises:
        Undecided: who may do what.
    """
    access = Access.of(service)
    guard = Guard(access)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        await service.start()
        try:
            yield
        finally:
            await service.stop()

    app = _Shortened(
        title="delaybridge",
        version=version("delaybridge"),
        description="Messages delivered later, on RabbitMQ.",
        openapi_tags=[{"name": name, "description": says} for name, says in _TAGS.items()],
        redoc_url=None,
        redirect_slashes=False,
        lifespan=lifespan,
    )
    api = Role.API in service.settings.roles
    operations = [placed for one in (OPERATIONS if api else health.OPERATIONS) for placed in everywhere(one)]
    for operation in operations:
        add(app, operation, guard.handler(service, operation))
    if api:
        _add_wires(app, service, guard)
    problems.install(app)
    limit_bytes = _LARGEST_BODIES * service.settings.max_body + _BESIDE_BODIES_BYTES
    # The one added last sees a request first.
    app.add_middleware(RawPath, under="/v1/")
    app.add_middleware(BodyLimit, limit_bytes=limit_bytes)
    app.add_middleware(RequestId)
    if api and service.settings.lmstfy:
        # Outermost: it has request ids, limits and errors of its own.
        mount_lmstfy(app, service)
    busiest = {place: guard.handler(service, operation) for place, operation in _BUSIEST.items()} if api else {}
    of_lmstfy = (service.settings.lmstfy_port, service.settings.lmstfy_admin_port) if service.settings.lmstfy else ()
    app.shorten(handlers=busiest, limit_bytes=limit_bytes, ports={port for port in of_lmstfy if port is not None})

    @cache
    def document() -> dict[str, Any]:
        return openapi.document(app, operations, tokens=access is not None)

    app.openapi = document  # type: ignore[method-assign]
    return app


def _add_wires(app: FastAPI, service: Service, guard: Guard) -> None:
    if service.settings.camellia:
        app.include_router(camellia.router(service, guard))
    if service.settings.tasks:
        app.include_router(tasks.router(service, guard))
    if service.settings.ouqiang:
        app.include_router(ouqiang.router(service, guard))
    if service.settings.changsongl:
        app.include_router(changsongl.router(service, guard))
    if service.settings.youzan:
        app.include_router(youzan.router(service, guard))
