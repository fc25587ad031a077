"""Streams the overview to consoles as server-sent events."""

from __future__ import annotations

from collections.abc import AsyncIterator
from time import monotonic
from typing import TYPE_CHECKING, Final

from fastapi.sse import EventSourceResponse, format_sse_event
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from bridge.access.caller import Caller
from bridge.access.decision import Need
from bridge.access.token import Scope as TokenScope
from bridge.http import exact_json
from bridge.http.guard import Guard
from bridge.http.v1.overview import overview_out
from bridge.model.errors import Unavailable

if TYPE_CHECKING:
    from bridge.service.pools.pools import Pools

MOST_STREAMS: Final = 64
_LIFE_S: Final = 300.0  # then the browser opens another stream, and the bridge checks the token again
_AGAIN_MS: Final = 1_000
_NEED: Final = Need(scope=TokenScope.LOOK)


class Live:
    """Serves the console's streams of the overview's figures. All streams of a process show one sample of figures, each
    without the topics that its caller may not use. The process takes a sample at most every two seconds."""

    def __init__(self, pools: Pools, guard: Guard) -> None:
        self._pools = pools
        self._guard = guard
        self.open = 0

    async def answer(self, request: Request) -> Response:
        """Answers a request with a stream of server-sent events, each with the figures of `GET /v1/overview`. The
        stream ends after five minutes, and the browser opens another one.

        Raises:
            Refused: the token or session does not allow the request, or a page of another site made it.
            Unavailable: 64 streams of this process are open, or the token could not be checked.
        """
        request.scope["operation"] = "live_overview"
        caller = await self._guard.admit(request, _NEED, sessions=True)
        if self.open >= MOST_STREAMS:
            raise Unavailable(f"{MOST_STREAMS} streams are open at this process: close a tab, or try again later")
        return _Counted(self, self._events(caller))

    async def _events(self, caller: Caller) -> AsyncIterator[bytes]:
        until_s, retry_ms = monotonic() + _LIFE_S, _AGAIN_MS
        while True:
            sample = await self._pools.overview.sample()
            data = exact_json.dumps(overview_out(sample, self._pools, caller)).decode()
            yield format_sse_event(data_str=data, event="overview", retry=retry_ms)
            if not await self._pools.overview.rest() or monotonic() > until_s:
                return


class _Counted(EventSourceResponse):
    """A stream that counts as open until its client has left."""

    def __init__(self, live: Live, events: AsyncIterator[bytes]) -> None:
        super().__init__(events, headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        self._live = live

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._live.open += 1
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._live.open -= 1
