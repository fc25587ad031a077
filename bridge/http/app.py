"""Builds the bridge's HTTP application."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache, partial
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI
from starlette.types import ASGIApp

from bridge.access.access import Access
from bridge.http import error_handlers
from bridge.http.console.mount import mount as mount_console
from bridge.http.guard import Guard
from bridge.http.request_id import RequestId
from bridge.http.server.access_log import AccessLog
from bridge.http.server.body_budget import BodyBudget
from bridge.http.server.fast_path import FastPath
from bridge.http.server.limits import BodyLimit
from bridge.http.server.raw_path import RawPath
from bridge.http.v1 import (
    actions,
    dead,
    health,
    messages,
    overview,
    pulling,
    searching,
    session,
    settling,
    timeline,
)
from bridge.http.v1.bulk import bulk, operations
from bridge.http.v1.document import docs_page, openapi
from bridge.http.v1.home import home
from bridge.http.v1.operation.operation import TOPIC, add, in_both_forms
from bridge.http.v1.schedules import changes as schedule_changes
from bridge.http.v1.schedules import ticks as schedule_ticks
from bridge.http.v1.sending import sending
from bridge.http.v1.topics import subscribing, topics
from bridge.http.wires.camellia import wire as camellia
from bridge.http.wires.jobs import changsongl, ouqiang, youzan
from bridge.http.wires.lmstfy.mount import mount as mount_lmstfy
from bridge.http.wires.tasks import wire as tasks
from bridge.settings.roles import Role

if TYPE_CHECKING:
    from bridge.service.pools.pools import Pools

_TAGS = {
    "messages": "Send messages that are delivered later. Look them up, list, move and delete them.",
    "consuming": "Pull ready messages under a lease, then ack, nack or extend them.",
    "dead letters": "Messages that used up their retries. List, replay or drop them.",
    "bulk": "Change all messages that a filter matches. Many are left to an operation, which goes on by itself.",
    "schedules": "Send a message again and again, by cron or at intervals.",
    "topics": "Count a topic's messages, and set the policy for them.",
    "operators": "See whether messages are on time, and what operators did. Sign a browser in.",
    "callbacks": "Have a topic's due messages posted to your HTTP endpoint, signed.",
    "health": "Liveness, readiness and metrics.",
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
    *searching.OPERATIONS,
    *timeline.OPERATIONS,
    *dead.OPERATIONS,
    *bulk.OPERATIONS,
    *operations.OPERATIONS,
    *topics.OPERATIONS,
    *schedule_changes.OPERATIONS,
    *schedule_ticks.OPERATIONS,
    *subscribing.OPERATIONS,
    *overview.OPERATIONS,
    *actions.OPERATIONS,
    *session.OPERATIONS,
    *health.OPERATIONS,
)


def create_app(pools: Pools) -> FastPath[FastAPI]:
    """Returns the ASGI application: the fast path, with FastAPI's application behind it as `app`.

    The application starts the pools when its lifespan begins, and stops them when its lifespan ends. A process without
    the role `api` has no operations but health and metrics.

    Raises:
        Undecided: the settings do not say who may use the bridge.
    """
    settings = pools.settings
    access = Access.of(pools)
    guard = Guard(access, local_only=settings.access is None)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        await pools.start()
        try:
            yield
        finally:
            await pools.stop()

    def limit_of(path: str) -> int:
        return settings.max_batch if path.endswith(sending.BATCH) else settings.max_request

    app = FastAPI(
        title="delaybridge",
        version=version("delaybridge"),
        description="Send a message now, and have it delivered later, through RabbitMQ.",
        openapi_tags=[{"name": name, "description": description} for name, description in _TAGS.items()],
        docs_url=None,  # FastAPI's pages load scripts from other hosts
        redoc_url=None,
        redirect_slashes=False,
        lifespan=lifespan,
    )
    api = Role.API in pools.settings.roles
    served = [routed for operation in (OPERATIONS if api else health.OPERATIONS) for routed in in_both_forms(operation)]
    app.router.add_route("/", partial(home, console=api), methods=["GET"], include_in_schema=False)
    docs_page.mount(app)
    for operation in served:
        add(app, operation, guard.handler(pools, operation))
    if api:
        mount_console(app, pools, guard, tokens=access is not None)
        _add_wires(app, pools, guard)
    error_handlers.install(app)
    # A request passes the middleware added last first.
    app.add_middleware(RawPath, under="/v1/")
    app.add_middleware(BodyLimit, limit_of=limit_of)
    app.add_middleware(RequestId)
    if api and pools.settings.lmstfy:
        # This wire has its own request ids, limits and errors, so its middleware is outermost.
        mount_lmstfy(app, pools)
    app.add_middleware(BodyBudget, limit_bytes=settings.max_buffered)

    @cache
    def document() -> dict[str, Any]:
        return openapi.document(app, served, tokens=access is not None)

    app.openapi = document  # type: ignore[method-assign]
    lmstfy_ports = (settings.lmstfy_port, settings.lmstfy_admin_port) if settings.lmstfy else ()
    return FastPath(
        app,
        handlers={path: (operation.name, guard.handler(pools, operation)) for path, operation in _BUSIEST.items()}
        if api
        else {},
        other_ports={port for port in lmstfy_ports if port is not None},
    )


def served_app(pools: Pools) -> ASGIApp:
    """Returns the application as a server runs it, with an access log if the settings ask for one.

    Raises:
        Undecided: the settings do not say who may use the bridge.
    """
    app = create_app(pools)
    return AccessLog(app) if pools.settings.access_log else app


def _add_wires(app: FastAPI, pools: Pools, guard: Guard) -> None:
    if pools.settings.camellia:
        app.include_router(camellia.router(pools, guard))
    if pools.settings.tasks:
        app.include_router(tasks.router(pools, guard))
    if pools.settings.ouqiang:
        app.include_router(ouqiang.router(pools, guard))
    if pools.settings.changsongl:
        app.include_router(changsongl.router(pools, guard))
    if pools.settings.youzan:
        app.include_router(youzan.router(pools, guard))
