"""Describes one operation of the API as a value: its path, its handler, and its documentation.

A handler gets the raw request and answers with bytes. FastAPI writes the OpenAPI document, and routes what `FastPath`
does not answer. Its parsing and serialising would cost more than all other HTTP work for a send.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, field, replace
from inspect import cleandoc
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI, Request, Response
from fastapi.routing import APIRoute
from msgspec import Struct
from starlette.routing import Match
from starlette.types import Receive, Send
from starlette.types import Scope as ASGIScope

from bridge.access.decision import Need
from bridge.access.token import Scope
from bridge.http.v1.operation.call import ApiCall

if TYPE_CHECKING:
    from bridge.service.pools.pools import Pools

TOPIC = "/v1/topics/{topic}"
_TOPIC_IN_NAMESPACE = "/v1/namespaces/{namespace}/topics/{name}"
_IN_NAMESPACE = "_in_namespace"


@dataclass(frozen=True, kw_only=True, slots=True)
class ResponseDoc:
    """One successful response of an operation, for the OpenAPI document. `headers`: the description of each header by
    name."""

    description: str
    example: Any
    model: type[Struct] | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    media_type: str = "application/json"


@dataclass(frozen=True, kw_only=True, slots=True)
class HeaderDoc:
    """A header that a request may have, for the OpenAPI document. `longest`: the most characters of its value."""

    name: str
    description: str
    example: str
    longest: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Operation:
    """One method on one path.

    `need`: what the token must allow; None if the operation takes requests without a token. `group`: the operation's
    tag in the OpenAPI document. `answers`: the successful responses by status. `problems`: the statuses of the
    operation's errors, besides those that the document adds: 500, the errors about tokens, 409 if `is_keyed`, and 415
    if there is a body. `takes`: the struct of the request's body; None: the operation takes no body. `query`: the
    struct of the query parameters. `examples`: request bodies by a short title. `headers`: the headers that a request
    may have. `is_keyed`: a request may have an idempotency key (`idempotency.py`). `summary`: one line for the OpenAPI
    document, which also has the handler's docstring.
    """

    name: str
    summary: str
    group: str
    method: str
    path: str
    run: Callable[[Pools, ApiCall], Awaitable[Response]]
    need: Need | None
    answers: Mapping[int, ResponseDoc]
    problems: tuple[int, ...] = (422, 503)
    takes: type[Struct] | None = None
    query: type[Struct] | None = None
    examples: Mapping[str, Any] = field(default_factory=dict)
    headers: tuple[HeaderDoc, ...] = ()
    is_keyed: bool = False

    @property
    def of_topic(self) -> bool:
        """Whether the path names the topic."""
        return self.path.startswith((TOPIC, _TOPIC_IN_NAMESPACE))

    @property
    def of_message(self) -> bool:
        """Whether the path names one message."""
        return "{id}" in self.path

    @property
    def is_action(self) -> bool:
        """Whether the operation is an operator's action: it needs the scope of operators, and changes something."""
        return self.need is not None and self.need.scope is Scope.ADMIN and self.method != "GET"

    @property
    def what(self) -> str:
        """The operation's name without the suffix that `in_both_forms` adds. So both forms of an operation have one
        name in metrics, in the list of actions and for idempotency keys."""
        return self.name.removesuffix(_IN_NAMESPACE)


class _Route(APIRoute):
    """A route that takes HEAD if it takes GET. For HEAD, the server sends only the head of the answer to GET."""

    def matches(self, scope: ASGIScope) -> tuple[Match, ASGIScope]:
        return super().matches({**scope, "method": "GET"} if scope.get("method") == "HEAD" else scope)

    async def handle(self, scope: ASGIScope, receive: Receive, send: Send) -> None:
        if scope["method"] == "HEAD" and "GET" in (self.methods or ()):
            await self.app(scope, receive, send)
        else:
            await super().handle(scope, receive, send)

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handler: Callable[[Request], Coroutine[Any, Any, Response]] = self.endpoint
        return handler


def in_both_forms(operation: Operation) -> tuple[Operation, ...]:
    """Returns the operation. For an operation on a topic, also returns the same operation with another path, in which
    the topic's namespace and name are two segments."""
    if not operation.path.startswith(TOPIC):
        return (operation,)
    path = operation.path.replace(TOPIC, _TOPIC_IN_NAMESPACE)
    return operation, replace(operation, name=operation.name + _IN_NAMESPACE, path=path)


def add(app: FastAPI, operation: Operation, handler: Callable[[ApiCall], Awaitable[Response]]) -> None:
    """Routes requests for the operation to the handler."""

    async def answer(request: Request) -> Response:
        request.scope["operation"] = operation.what
        return await handler(ApiCall(request.scope, request.receive))

    app.router.add_api_route(
        operation.path,
        answer,
        methods=[operation.method],
        name=operation.name,
        operation_id=operation.name,
        tags=[operation.group],
        summary=operation.summary,
        description=cleandoc(operation.run.__doc__ or ""),
        response_model=None,
        response_class=Response,
        route_class_override=_Route,
    )
