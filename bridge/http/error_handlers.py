"""Makes FastAPI answer errors as problem documents (RFC 9457)."""

from __future__ import annotations

from http import HTTPStatus

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Match

from bridge.http import request_id
from bridge.http.problems import (
    NO_SUCH_METHOD,
    NO_SUCH_PATH,
    ProblemType,
    answer,
    answer_of,
    shown,
    unforeseen,
)
from bridge.model.errors import BridgeError

_METHODS = ("DELETE", "GET", "HEAD", "PATCH", "POST", "PUT")


def install(app: FastAPI) -> None:
    """Adds the handlers of errors to the application."""
    app.add_exception_handler(BridgeError, _bridge_error)
    app.add_exception_handler(HTTPException, _http_exception)
    app.add_exception_handler(ClientDisconnect, _client_gone)
    app.add_exception_handler(Exception, _anything)


async def _bridge_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, BridgeError)
    return answer(request, error)


async def _http_exception(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    path = request.scope["path"]
    if error.status_code == HTTPStatus.NOT_FOUND:
        return answer_of(request, NO_SUCH_PATH, f"there is nothing at {shown(path)}: see /openapi.json for the paths")
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        allowed = ", ".join(_allowed(request))
        detail = f"{shown(path)} takes {allowed}, not {shown(request.method)}"
        return answer_of(request, NO_SUCH_METHOD, detail, headers={"Allow": allowed})
    status = HTTPStatus(error.status_code)
    problem_type = ProblemType(status, status.phrase.lower().replace(" ", "-"), status.phrase)
    return answer_of(request, problem_type, str(error.detail), headers=error.headers)


async def _client_gone(request: Request, error: Exception) -> Response:
    return Response(status_code=499)  # nobody reads this answer


async def _anything(request: Request, error: Exception) -> Response:
    response = unforeseen(request)
    # Starlette sends this response outside of the middleware that adds the request id to all other responses.
    response.headers["X-Request-ID"] = request_id.of(request.scope)
    return response


def _allowed(request: Request) -> list[str]:
    """Returns the methods that the routes at the request's path take."""
    return [
        method
        for method in _METHODS
        if any(route.matches({**request.scope, "method": method})[0] is Match.FULL for route in request.app.routes)
    ]
