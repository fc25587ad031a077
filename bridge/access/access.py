"""The decision on a request: asked in one place of the front end, for every operation and every wire."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from ipaddress import ip_address

from bridge.access.caller import Caller
from bridge.access.decision import Need, may
from bridge.access.errors import Refused, TooManyRequests
from bridge.access.refusals import tell
from bridge.access.sources import FileSource, StoreSource
from bridge.access.token import Token
from bridge.access.tokens import Tokens
from bridge.service.pools import Pools
from bridge.settings.settings import Settings
from bridge.store.rates import Rate, Rates
from bridge.store.tokens import StoredTokens


class Undecided(Exception):
    """Others than this machine could reach the bridge, and nobody has said who may do what."""


def asks_for_tokens(settings: Settings) -> bool:
    """
    Raises:
        Undecided
    """
    if settings.access is None and not is_loopback(settings.http_host):
        raise Undecided(
            f"BRIDGE_HTTP_HOST is {settings.http_host or 'every address'}, which others can reach: create a token"
            " (delaybridge token create) and set BRIDGE_ACCESS=tokens, or, where something in front decides who may"
            " do what, BRIDGE_ACCESS=open"
        )
    return settings.access == "tokens"


class Access:
    def __init__(self, tokens: Tokens, rates: Rates) -> None:
        self._tokens = tokens
        self._rates = rates

    @classmethod
    def of(cls, pools: Pools) -> Access | None:
        """As the settings say, with the loop that it needs added to the service. None: no token is asked for.

        Raises:
            Undecided
        """
        if not asks_for_tokens(pools.settings):
            return None
        context, file = pools.default.context, pools.settings.tokens_file
        store, keys = context.store, context.records.keys
        tokens = Tokens(FileSource(file) if file is not None else StoreSource(StoredTokens(store, keys)))
        pools.default.add(tokens)
        return cls(tokens, Rates(store, keys))

    async def admit(
        self, authorizations: Sequence[bytes], need: Need, topic: Callable[[], str] | None = None
    ) -> Caller:
        """Who asks, if it may. `topic`: reads what the request is about, where that can be told by now.

        Raises:
            Refused
            InvalidRequest: by `topic`, which is not asked before the token and its scope have been found good.
            Unavailable: it can't be told.
        """
        try:
            token = await self._tokens.of(authorizations)
            refusal = may(token, need) or (may(token, need, topic()) if topic is not None else None)
            if refusal is not None:
                raise refusal
            await self._count(token, need)
        except Refused as refused:
            tell(refused)
            raise
        return Caller(token, need)

    async def _count(self, token: Token, need: Need) -> None:
        per_s = token.per_s(need.scope) if need.rated else None
        if per_s is None:
            return
        wait_ms = await self._rates.admit(token.id, need.scope, Rate(per_s))
        if wait_ms:
            message = f"this token may make {per_s} requests a second with the scope {need.scope}: retry after a pause"
            raise TooManyRequests(message, token_id=token.id, wait_ms=wait_ms)


def is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
