"""Whose token it is: a token opens one namespace, for as long as it is in Redis.

What Redis said is good for a second, so a token that was deleted, or given another limit, through any process is so for
all of them a second later.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic

from bridge.http.wires.lmstfy.answers import Refusal
from bridge.http.wires.lmstfy.names import topic_of
from bridge.http.wires.lmstfy.pools import parse_token
from bridge.http.wires.lmstfy.request import LmstfyRequest
from bridge.store.lmstfy import Holder, Limit, LmstfyStore

_GOOD_FOR_S = 1.0
_MOST = 50_000


@dataclass(frozen=True, slots=True)
class Grant:
    limit: Limit | None
    asked_s: float


class Grants:
    def __init__(self, kept_of: Callable[[Holder], LmstfyStore]) -> None:
        self._kept_of = kept_of
        self._grants: dict[Holder, Grant] = {}

    async def of(self, holder: Holder, *, known: bool = False) -> Grant | None:
        """None: there is no such token, unless it is `known` to be good.

        Raises:
            StoreUnavailable
        """
        grant = self._grants.get(holder)
        if grant is not None and monotonic() - grant.asked_s < _GOOD_FOR_S:
            return grant
        asked_s = monotonic()
        kept = self._kept_of(holder)
        there, limit = await asyncio.gather(kept.has_token(holder), kept.limit(holder))
        if not there and not known:
            self._grants.pop(holder, None)
            return None
        if len(self._grants) >= _MOST:
            self._grants.clear()
        grant = self._grants[holder] = Grant(limit, asked_s)
        return grant

    def forget(self, holder: Holder) -> None:
        """It is not what it was."""
        self._grants.pop(holder, None)


async def find_pool(exchange: LmstfyRequest) -> None:
    """
    Raises:
        Refusal
    """
    given = exchange.header("X-Token") or exchange.query.values.get("token", "")
    pool, token = parse_token(given)
    exchange.found.pool = pool
    exchange.found.service = exchange.wire.pools.serving(pool, topic_of(exchange.namespace, ""))
    if exchange.found.service is None:
        raise Refusal(404, error="pool not found")
    exchange.found.holder = Holder(pool, exchange.namespace, token)


async def check_token(exchange: LmstfyRequest) -> None:
    """
    Raises:
        Refusal
        Unavailable: it can't be told.
    """
    holder, verified = exchange.found.holder, not exchange.wire.settings.lmstfy_skip_verification
    assert holder is not None
    if verified and not holder.token:
        raise Refusal(401, error="token not found")
    grant = await exchange.wire.grants.of(holder, known=not verified)
    if grant is None:
        raise Refusal(401, error="invalid token")
    exchange.found.namespace = exchange.namespace
    exchange.found.limit = grant.limit
