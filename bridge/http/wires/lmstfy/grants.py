"""Caches which tokens Redis knows, and their rate limits.

A cached answer is valid for a second. So when any process deletes a token or changes its limit, all processes follow
within a second.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING, Final

from bridge.model.lmstfy import LmstfyToken, TokenLimit
from bridge.settings.pools import DEFAULT

if TYPE_CHECKING:
    from bridge.service.service import Service

_VALID_FOR_S: Final = 1.0
_MAX_CACHED: Final = 50_000


@dataclass(frozen=True, slots=True)
class Grant:
    """The answer of Redis about a token. `limit` None: the token has no rate limit. `asked_s`: when Redis was asked, in
    seconds of `monotonic()`."""

    limit: TokenLimit | None
    asked_s: float


class Grants:
    def __init__(self, service_of: Callable[[LmstfyToken], Service]) -> None:
        self._service_of = service_of
        self._grants: dict[LmstfyToken, Grant] = {}

    async def of(self, token: LmstfyToken, *, trusted: bool = False) -> Grant | None:
        """Returns the token's grant; None if Redis does not know the token. A `trusted` token always gets a grant.

        Raises:
            StoreUnavailable: Redis did not answer.
        """
        grant = self._grants.get(token)
        if grant is not None and monotonic() - grant.asked_s < _VALID_FOR_S:
            return grant
        asked_s = monotonic()
        records = self._service_of(token).lmstfy
        exists, limit = await asyncio.gather(records.has_token(token), records.limit(token))
        if not exists and not trusted:
            self._grants.pop(token, None)
            return None
        if len(self._grants) >= _MAX_CACHED:
            self._grants.clear()
        grant = self._grants[token] = Grant(limit, asked_s)
        return grant

    def forget(self, token: LmstfyToken) -> None:
        """Drops the token's cached grant. Call it after this process has changed the token or its limit."""
        self._grants.pop(token, None)


def parse_token(given: str) -> tuple[str, str]:
    """Returns the pool and the secret of a token written as `[pool:]secret`. Without a pool, the token is of the
    default pool."""
    pool, colon, secret = given.partition(":")
    return (pool or DEFAULT, secret) if colon else (DEFAULT, given)
