"""Decides whether a request may use its namespace: finds the token's pool, then checks the token.

Each stage returns an `Admitted`, which the handler receives; no stage changes the request.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from starlette.responses import Response

from bridge.http.wires.lmstfy.answers import Refusal
from bridge.http.wires.lmstfy.grants import parse_token
from bridge.http.wires.lmstfy.names import topic_of
from bridge.http.wires.lmstfy.request import WireRequest
from bridge.model.lmstfy import LmstfyToken, TokenLimit

if TYPE_CHECKING:
    from bridge.service.service import Service


@dataclass(frozen=True, kw_only=True, slots=True)
class Admitted:
    """The namespace, queue and token of a request, and the service that holds the namespace's topics.

    `pool` is the token's pool; the service may belong to another pool. `limit` is the token's rate limit; None: it has
    none, or the token was not checked, as on routes that need no token.
    """

    namespace: str
    queue: str
    pool: str
    token: LmstfyToken
    service: Service
    limit: TokenLimit | None = None

    @property
    def topic(self) -> str:
        return topic_of(self.namespace, self.queue)

    def now_ms(self) -> float:
        """Returns the time of the service's Redis, in Unix ms."""
        return self.service.context.store.clock.now_ms()


ApiHandler = Callable[[WireRequest, Admitted], Awaitable[Response]]


def find_pool(request: WireRequest) -> Admitted:
    """Returns an `Admitted` with the pool that the token names. The token is not checked yet.

    Raises:
        Refusal: there is no such pool.
    """
    pool, secret = parse_token(request.header("X-Token") or request.query.values.get("token", ""))
    service = request.wire.serving(pool, topic_of(request.namespace, ""))
    if service is None:
        raise Refusal(404, error="pool not found")
    token = LmstfyToken(pool, request.namespace, secret)
    return Admitted(namespace=request.namespace, queue=request.queue, pool=pool, token=token, service=service)


async def check_token(request: WireRequest, admitted: Admitted) -> Admitted:
    """Checks that the token allows the namespace. Returns `admitted` with the token's rate limit.

    Raises:
        Refusal: the token is missing or unknown, unless verification is switched off.
        StoreUnavailable: Redis can't verify the token.
    """
    verified = not request.wire.settings.lmstfy_skip_verification
    if verified and not admitted.token.secret:
        raise Refusal(401, error="token not found")
    grant = await request.wire.grants.of(admitted.token, trusted=not verified)
    if grant is None:
        raise Refusal(401, error="invalid token")
    return replace(admitted, limit=grant.limit)
