"""Serves the ports of the API and of the admin calls: runs the stages and the handler of each request."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from starlette.responses import Response

from bridge.http.wires.lmstfy import answers, names
from bridge.http.wires.lmstfy.admission import Admitted, ApiHandler, check_token, find_pool
from bridge.http.wires.lmstfy.basic_auth import check_account
from bridge.http.wires.lmstfy.local import check_site
from bridge.http.wires.lmstfy.request import WireRequest
from bridge.http.wires.lmstfy.router import Answered, Route, Router, failure
from bridge.model.action import ActionName
from bridge.settings.pools import DEFAULT

AdminHandler = Callable[[WireRequest], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class ApiRoute(Route):
    """A route of the API's port. `check_names` gets the namespace and the queue, and raises Refusal for a wrong name.
    `needs_token` False: the route needs a token only with BRIDGE_ACCESS=tokens. `what`: the name of the operator's
    action that a request of the route is; None: it is no such action."""

    handler: ApiHandler
    check_names: Callable[[str, str], None] = names.check
    needs_token: bool = True
    what: ActionName | None = None


class ApiRouter(Router[ApiRoute]):
    """Serves the API's port: checks a request in lmstfy's order (names, pool, token), then runs the route's handler."""

    async def run(self, route: ApiRoute, request: WireRequest) -> Answered:
        admitted: Admitted | None = None
        namespace = ""  # only a verified namespace becomes a metric's label: clients can send any number of others
        try:
            if request.wire.settings.access is None:
                check_site(request)
            route.check_names(request.namespace, request.queue)
            admitted = find_pool(request)
            if route.needs_token or request.wire.settings.access == "tokens":
                admitted = await check_token(request, admitted)
                namespace = admitted.namespace
            async with request.acting(route.what, topic=admitted.topic):
                response = await route.handler(request, admitted)
        except Exception as error:  # noqa: BLE001 - a fault is logged and answered as 500
            response = failure(error, request)
        return Answered(response, "" if admitted is None else admitted.pool, namespace)

    def not_found(self) -> Response:
        return answers.api_not_found()

    def logged_path(self, request: WireRequest) -> str:
        path: str = request.http.scope["path"]  # without the query, which may contain a token
        return path

    def count(self, request: WireRequest, answered: Answered, took_s: float) -> None:
        self._wire.metrics.answered(
            answered.pool or DEFAULT,
            answered.namespace,
            request.route,
            request.http.method,
            status=answered.response.status_code,
            took_s=took_s,
        )


@dataclass(frozen=True, slots=True)
class AdminRoute(Route):
    handler: AdminHandler
    needs_account: bool = True
    what: ActionName | None = None


class AdminRouter(Router[AdminRoute]):
    async def run(self, route: AdminRoute, request: WireRequest) -> Answered:
        try:
            if not (request.wire.settings.lmstfy_accounts or request.wire.settings.access == "open"):
                check_site(request)
            if route.needs_account:
                check_account(request)
            async with request.acting(route.what, target=request.params.get("namespace")):
                response = await route.handler(request)
        except Exception as error:  # noqa: BLE001 - a fault is logged and answered as 500
            response = failure(error, request)
        return Answered(response)

    def not_found(self) -> Response:
        return answers.page_not_found()

    def logged_path(self, request: WireRequest) -> str:
        return request.route  # the path itself may contain a token
