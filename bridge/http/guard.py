"""The one place that lets a request in: before its body is read, and before anything is done for it."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from fastapi import Request, Response

from bridge.access.access import Access
from bridge.access.caller import ANYBODY, Caller
from bridge.access.decision import Need
from bridge.http.v1.call import Call
from bridge.http.v1.operation import Operation

if TYPE_CHECKING:
    from bridge.service.service import Service

Handler = Callable[[Request], Coroutine[Any, Any, Response]]


class Guard:
    """`access`: None where no token is asked for."""

    def __init__(self, access: Access | None) -> None:
        self._access = access

    async def admit(self, request: Request, need: Need, topic: Callable[[], str] | None = None) -> Caller:
        """Who asks; errors and `topic` are those of `Access.admit`."""
        if self._access is None:
            return ANYBODY
        given = [value for name, value in request.scope["headers"] if name == b"authorization"]
        return await self._access.admit(given, need, topic)

    def handler(self, service: Service, operation: Operation) -> Handler:
        """What answers a request for the operation."""
        run, need = operation.run, operation.need

        async def answer(request: Request) -> Response:
            return await run(service, Call(request))

        async def answer_if_it_may(request: Request) -> Response:
            assert need is not None
            call = Call(request)
            call.caller = await self.admit(request, need, (lambda: call.topic) if operation.of_topic else None)
            return await run(service, call)

        return answer if self._access is None or need is None else answer_if_it_may
