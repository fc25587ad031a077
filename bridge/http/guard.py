"""Admits requests: checks the token before a handler reads the body or does any work."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Protocol

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Scope

from bridge.access.access import Access
from bridge.access.caller import ANYBODY, Caller
from bridge.access.decision import Need
from bridge.access.errors import Refused
from bridge.access.local import check_local
from bridge.access.same_site import check_same_site
from bridge.access.sessions import cookie_in
from bridge.http import problems
from bridge.http.scope_keys import TOKEN_ID
from bridge.http.v1.actions import recorded
from bridge.http.v1.operation.call import ApiCall
from bridge.http.v1.operation.idempotency import answered_once
from bridge.http.v1.operation.operation import Operation
from bridge.model import log_scope
from bridge.model.errors import BridgeError

if TYPE_CHECKING:
    from bridge.service.pools.pools import Pools

Handler = Callable[[ApiCall], Awaitable[Response]]


class _Scoped(Protocol):
    @property
    def scope(self) -> Scope: ...


class Guard:
    """The check in front of every operation, and of every wire but lmstfy's. `access`: None if no token is required.
    `local_only`: if no token is required, refuses requests that pages of other sites make."""

    def __init__(self, access: Access | None, *, local_only: bool = False) -> None:
        self._access = access
        self._local_only = local_only

    async def admit(
        self, request: _Scoped, need: Need, topic: Callable[[], str] | None = None, *, sessions: bool = False
    ) -> Caller:
        """Checks a request's token and origin, and returns the caller.

        `need`: the scope and the rights that the operation requires. `topic`: returns the request's topic; None: no
        topic is checked here, because the request has none or only its body names it. `sessions`: a browser's session
        may replace the token.

        Raises:
            Refused: the token does not allow the request, or its rate is used up. Or a page of another site made the
                request.
            InvalidRequest: raised by `topic`, after the token and its scope were checked.
            Unavailable: the token or its rate could not be checked.
        """
        if self._access is None:
            if self._local_only:
                check_local(request.scope["headers"])
            return ANYBODY
        headers = request.scope["headers"]
        authorizations = [value for name, value in headers if name == b"authorization"]
        session = cookie_in(headers) if sessions and not authorizations else None
        if session is not None:
            check_same_site(request.scope["method"], headers)
        try:
            caller = await self._access.admit(authorizations, need, topic, session=session)
        except Refused as refusal:
            request.scope[TOKEN_ID] = refusal.token_id
            raise
        request.scope[TOKEN_ID] = caller.who
        log_scope.enter_token(caller.who)
        return caller

    def handler(self, pools: Pools, operation: Operation) -> Handler:
        """Returns the function that answers requests for the operation. It checks each request first, and then runs the
        operation. If the check or the operation raises a `BridgeError`, it answers with a problem document."""
        run, need = answered_once(operation, recorded(operation)), operation.need
        is_open = need is None or (self._access is None and not self._local_only)

        async def answer(call: ApiCall) -> Response:
            try:
                if not is_open:
                    assert need is not None
                    topic = (lambda: call.topic) if operation.of_topic else None
                    call.caller = await self.admit(call, need, topic, sessions=True)
                return await run(pools, call)
            except BridgeError as error:
                return problems.answer(Request(call.scope), error)

        return answer
