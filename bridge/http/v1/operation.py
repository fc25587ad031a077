"""One operation of the API as a value: where it is, what runs, and all that its documentation says.

A handler gets the request as it is and answers with bytes: FastAPI's parsing and serialising would cost more than
everything else HTTP does for a send. Its part is the routing and the OpenAPI document.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI, Request, Response
from fastapi.routing import APIRoute
from pydantic import BaseModel

from bridge.access.decision import Need
from bridge.http.v1.call import Call

if TYPE_CHECKING:
    from bridge.service.pools import Pools

TOPIC = "/v1/topics/{topic}"
_TOPIC_IN_NAMESPACE = "/v1/namespaces/{namespace}/topics/{name}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """One way an operation answers when all is well. `headers`: names, and what each says."""

    says: str
    example: Any
    model: type[BaseModel] | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    media_type: str = "application/json"


@dataclass(frozen=True, kw_only=True, slots=True)
class Operation:
    """`need`: what a token must allow; None: it needs none. `problems`: the statuses it may be refused with, beside 500
    and what tokens bring. `examples`: of what it takes, by what they show."""

    name: str
    group: str
    method: str
    path: str
    run: Callable[[Pools, Call], Awaitable[Response]]
    need: Need | None
    answers: Mapping[int, Answer]
    problems: tuple[int, ...] = (422, 503)
    takes: type[BaseModel] | None = None
    query: type[BaseModel] | None = None
    examples: Mapping[str, Any] = field(default_factory=dict)

    @property
    def of_topic(self) -> bool:
        """Whether its path names its topic."""
        return self.path.startswith((TOPIC, _TOPIC_IN_NAMESPACE))


class _Route(APIRoute):
    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handler: Callable[[Request], Coroutine[Any, Any, Response]] = self.endpoint
        return handler


def everywhere(operation: Operation) -> tuple[Operation, ...]:
    """The operation, and for one on a topic also the same where the topic is two segments."""
    if not operation.path.startswith(TOPIC):
        return (operation,)
    path = operation.path.replace(TOPIC, _TOPIC_IN_NAMESPACE)
    return operation, replace(operation, name=f"{operation.name}_in_namespace", path=path)


def add(app: FastAPI, operation: Operation, handler: Callable[[Call], Awaitable[Response]]) -> None:
    """Routes the operation's calls to the handler."""

    async def answer(request: Request) -> Response:
        return await handler(Call(request.scope, request.receive))

    app.router.add_api_route(
        operation.path,
        answer,
        methods=[operation.method],
        name=operation.name,
        operation_id=operation.name,
        tags=[operation.group],
        summary=operation.name.removesuffix("_in_namespace").replace("_", " ").capitalize(),
        description=operation.run.__doc__ or "",
        response_model=None,
        response_class=Response,
        route_class_override=_Route,
    )
