"""Every error as `application/problem+json` (RFC 9457), from one table of what is answered to what."""

from __future__ import annotations

import reprlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Match

from bridge.access import errors as access
from bridge.access.token import masked
from bridge.http import exact_json
from bridge.http.errors import BrokenJSON, TooLarge
from bridge.http.fields import field_errors
from bridge.http.server import request_id
from bridge.model import errors
from bridge.model.errors import BridgeError, FieldError

MEDIA_TYPE = "application/problem+json"
_SHOWN_CHARACTERS = 200  # of a value that is given back to whoever sent it
_METHODS = ("DELETE", "GET", "PATCH", "POST", "PUT")


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of problem: what it is called, and the status it is answered with."""

    status: int
    slug: str
    title: str

    @property
    def type(self) -> str:
        return f"urn:problem-type:delaybridge:{self.slug}"


INTERNAL = Kind(500, "internal", "Something went wrong here")
NO_SUCH_PATH = Kind(404, "no-such-path", "There is nothing at this path")
NO_SUCH_METHOD = Kind(405, "no-such-method", "This path has no such method")
INVALID = Kind(422, "invalid-request", "The request is not valid")
NOT_READY = Kind(503, "not-ready", "The bridge is not ready")

KINDS: Mapping[type[BridgeError], Kind] = {
    access.NoToken: Kind(401, "no-token", "A token is needed"),
    access.InvalidToken: Kind(401, "invalid-token", "The token is not valid"),
    access.NotAllowed: Kind(403, "insufficient-scope", "The token does not allow this"),
    access.TooManyRequests: Kind(429, "too-many-requests", "The token's limit is reached"),
    BrokenJSON: Kind(400, "broken-json", "The request is not JSON"),
    errors.NotFound: Kind(404, "not-found", "Nothing is known under this name"),
    errors.Conflict: Kind(409, "conflict", "The state forbids this"),
    errors.BodyNotKept: Kind(409, "body-not-kept", "The message's body was not kept"),
    errors.LeaseEnded: Kind(409, "lease-ended", "The lease has ended"),
    errors.TopicNotEmpty: Kind(409, "topic-not-empty", "The topic has messages"),
    TooLarge: Kind(413, "too-large", "Larger than is allowed"),
    errors.InvalidRequest: INVALID,
    errors.Unavailable: Kind(503, "unavailable", "A store is away: nothing was promised"),
    BridgeError: INTERNAL,
}


def install(app: FastAPI) -> None:
    """Has the app answer every error as a problem."""
    app.add_exception_handler(BridgeError, _bridge_error)
    app.add_exception_handler(HTTPException, _http_exception)
    app.add_exception_handler(RequestValidationError, _validation_error)
    app.add_exception_handler(ClientDisconnect, _client_gone)
    app.add_exception_handler(Exception, _anything)


def problem(error: BridgeError, identity: str) -> dict[str, Any]:
    """The problem's members; `identity` is the request's id."""
    kind = next(KINDS[cls] for cls in type(error).__mro__ if cls in KINDS)
    members = _members(kind, str(error), identity, getattr(error, "errors", ()))
    if isinstance(error, errors.Conflict) and error.state is not None:
        members["state"] = error.state
    if isinstance(error, access.NotAllowed):
        members["scope"] = error.scope
    if isinstance(error, errors.Unavailable | access.TooManyRequests):
        members["retry_after_s"] = error.retry_after_s
    return members


def internal(identity: str) -> dict[str, Any]:
    """The members of the problem that stands for an error nobody foresaw."""
    return _members(INTERNAL, "the server's log has more under this request id", identity)


def answer(request: Request, error: BridgeError) -> Response:
    headers = error.headers if isinstance(error, access.Refused) else None
    if isinstance(error, errors.Unavailable):
        headers = {"Retry-After": str(error.retry_after_s)}
    return _response(problem(error, request_id.of(request.scope)), headers)


def document(kind: Kind, detail: str, identity: str) -> bytes:
    """The whole problem, for what is refused before there is a request."""
    return exact_json.dumps(_members(kind, detail, identity))


def answer_of(
    request: Request, kind: Kind, detail: str, *, headers: Mapping[str, str] | None = None, **members: Any
) -> Response:
    """A problem that no error of the tree stands for, with further members."""
    return _response(_members(kind, detail, request_id.of(request.scope)) | members, headers)


async def _bridge_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, BridgeError)
    return answer(request, error)


async def _http_exception(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    path = request.scope["path"]
    if error.status_code == HTTPStatus.NOT_FOUND:
        return answer_of(request, NO_SUCH_PATH, f"there is nothing at {_shown(path)}")
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        allowed = ", ".join(_allowed(request))
        detail = f"{_shown(path)} takes {allowed}, not {_shown(request.method)}"
        return answer_of(request, NO_SUCH_METHOD, detail, headers={"Allow": allowed})
    status = HTTPStatus(error.status_code)
    kind = Kind(status, status.phrase.lower().replace(" ", "-"), status.phrase)
    return answer_of(request, kind, str(error.detail), headers=error.headers)


async def _validation_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    # The first part of a place is where the value was: path, query, header or body.
    found = field_errors({**one, "loc": one["loc"][1:]} for one in error.errors())
    return answer(request, errors.InvalidRequest(*found))


def unforeseen(request: Request) -> Response:
    """What is answered to an error that the server's log has."""
    identity = request_id.of(request.scope)
    return _response(internal(identity), None)


async def _client_gone(request: Request, error: Exception) -> Response:
    return Response(status_code=499)  # read by nobody


async def _anything(request: Request, error: Exception) -> Response:
    response = unforeseen(request)
    # Answered outside of the middleware that adds the id to other answers.
    response.headers["X-Request-ID"] = request_id.of(request.scope)
    return response


def _allowed(request: Request) -> list[str]:
    """The methods that some route at the request's path takes."""
    return [
        method
        for method in _METHODS
        if any(route.matches({**request.scope, "method": method})[0] is Match.FULL for route in request.app.routes)
    ]


def _members(kind: Kind, detail: str, identity: str, found: Iterable[FieldError] = ()) -> dict[str, Any]:
    return {
        "type": kind.type,
        "title": kind.title,
        "status": kind.status,
        "detail": detail,
        "errors": [
            {"field": one.field, "value": _shown(one.value), "limit": one.limit, "message": one.message}
            for one in found
        ],
        "request_id": identity,
    }


def _shown(value: Any) -> Any:
    """The value, cut where it is long."""
    try:
        text = value if isinstance(value, str) else exact_json.dumps(value).decode()
    except TypeError:
        return reprlib.repr(value)  # nests too deep for JSON, and for a whole repr
    if len(text) > _SHOWN_CHARACTERS:
        return text[:_SHOWN_CHARACTERS] + "…"
    return value


def _response(members: Mapping[str, Any], headers: Mapping[str, str] | None) -> Response:
    # A caller may have put a token where it has no place, such as in the query, and values are given back.
    return Response(masked(exact_json.dumps(members)), members["status"], headers, MEDIA_TYPE)
