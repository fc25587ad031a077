"""Limits how often a token may publish and consume, in fixed windows that all processes share.

Only successful requests count.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final, Literal

from starlette.responses import Response

from bridge.http.wires.lmstfy.admission import Admitted, ApiHandler
from bridge.http.wires.lmstfy.answers import Refusal
from bridge.http.wires.lmstfy.request import WireRequest
from bridge.model.errors import Unavailable

Direction = Literal["produce", "consume"]

_SUCCESS: Final = {"produce": 201, "consume": 200}
_LONGEST_S: Final = 100 * 365 * 86_400


def throttled(direction: Direction, handler: ApiHandler) -> ApiHandler:
    """Returns a handler that refuses requests beyond the token's rate limit (429), and passes others on to `handler`.
    `direction`: which of the token's two limits applies."""

    async def run(request: WireRequest, admitted: Admitted) -> Response:
        token, limit = admitted.token, admitted.limit
        allowed = 0 if limit is None else limit.read if direction == "consume" else limit.write
        if limit is None or allowed <= 0:
            return await handler(request, admitted)
        windows = request.wire.service_of(token.pool).lmstfy
        length_ms = min(limit.interval, _LONGEST_S) * 1_000
        try:
            ends_ms = await windows.take(token, direction, limit=allowed, length_ms=length_ms)
        except Unavailable as error:
            raise Refusal(500, err=str(error)) from None
        if not ends_ms:
            request.wire.metrics.refused(token, direction)
            text = f"token({token.secret}) {direction} reach the limit rate, please retry later"
            raise Refusal(429, msg=text)
        status = 0
        try:
            response = await handler(request, admitted)
            status = response.status_code
            return response
        finally:
            if status != _SUCCESS[direction]:
                with suppress(Unavailable):
                    await windows.give_back(token, direction, ends_ms)

    return run
