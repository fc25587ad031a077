"""How often a token may publish and consume: in fixed windows that all processes share. Only what succeeds counts."""

from __future__ import annotations

from contextlib import suppress
from typing import Final, Literal

from starlette.responses import Response

from bridge.http.wires.lmstfy.answers import Refusal
from bridge.http.wires.lmstfy.request import LmstfyRequest
from bridge.http.wires.lmstfy.router import Handler
from bridge.model.errors import Unavailable

Direction = Literal["produce", "consume"]

_SUCCESS: Final = {"produce": 201, "consume": 200}
_LONGEST_S: Final = 100 * 365 * 86_400


def throttled(direction: Direction, handler: Handler) -> Handler:
    """The handler, for as long as the token's limit allows."""

    async def run(exchange: LmstfyRequest) -> Response:
        holder, limit = exchange.found.holder, exchange.found.limit
        units = 0 if limit is None else limit.read if direction == "consume" else limit.write
        if holder is None or limit is None or units <= 0:
            return await handler(exchange)
        kept = exchange.wire.kept(holder.pool)
        try:
            ends_ms = await kept.take(holder, direction, limit=units, length_ms=min(limit.interval, _LONGEST_S) * 1_000)
        except Unavailable as error:
            raise Refusal(500, err=str(error)) from None
        if not ends_ms:
            exchange.wire.metrics.refused(holder, direction)
            text = f"token({holder.token}) {direction} reach the limit rate, please retry later"
            raise Refusal(429, msg=text)
        status = 0
        try:
            response = await handler(exchange)
            status = response.status_code
            return response
        finally:
            if status != _SUCCESS[direction]:
                with suppress(Unavailable):
                    await kept.give_back(holder, direction, ends_ms)

    return run
