"""Mounts lmstfy's wire in front of the application, and checks who may reach its admin port."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.types import ASGIApp, Receive, Scope, Send

from bridge.access.access import Undecided, is_loopback
from bridge.http.wires.lmstfy.ports import AdminRouter, ApiRouter
from bridge.http.wires.lmstfy.routes import ADMIN, API
from bridge.http.wires.lmstfy.wire import Wire

if TYPE_CHECKING:
    from fastapi import FastAPI

    from bridge.service.pools.pools import Pools
    from bridge.settings.settings import Settings


def mount(app: FastAPI, pools: Pools) -> None:
    """Mounts the wire in front of the application.

    Raises:
        Undecided: other machines could make tokens, as no setting says who may use the admin port.
    """
    check_admin_port(pools.settings)
    app.add_middleware(Mount, wire=Wire(pools))


class Mount:
    """ASGI middleware: answers requests of this wire, and passes all others to the application.

    A request belongs to this wire by its port, or by a path under /api/. The wire has its own tokens. It does not
    require the bridge's tokens, because clients of lmstfy can't send them.
    """

    def __init__(self, app: ASGIApp, *, wire: Wire) -> None:
        self._app = app
        self._api = ApiRouter(wire, API)
        self._by_port: dict[int | None, ASGIApp] = {
            wire.settings.lmstfy_port: self._api,
            wire.settings.lmstfy_admin_port: AdminRouter(wire, ADMIN),
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        app = self._app_for(scope)
        if app is not self._app:
            scope["operation"] = "lmstfy"
        await app(scope, receive, send)

    def _app_for(self, scope: Scope) -> ASGIApp:
        if scope["type"] != "http":
            return self._app
        port = (scope.get("server") or (None, None))[1]
        if port is not None and port in self._by_port:
            return self._by_port[port]
        return self._api if scope["path"].startswith("/api/") else self._app


def check_admin_port(settings: Settings) -> None:
    """Checks that the settings say who may use the admin port.

    Raises:
        Undecided: other machines could make tokens, as no setting says who may use the admin port.
    """
    decided = settings.lmstfy_admin_port is None or settings.lmstfy_accounts or settings.access == "open"
    if not decided and not is_loopback(settings.lmstfy_admin_host):
        raise Undecided(
            f"other machines can reach BRIDGE_LMSTFY_ADMIN_HOST, {settings.lmstfy_admin_host or 'every address'}, and"
            " nobody has to give a password: set BRIDGE_LMSTFY_ACCOUNTS, or BRIDGE_ACCESS=open if a proxy in front"
            " checks who may do what"
        )
