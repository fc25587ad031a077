"""Admits or refuses a request by its token. lmstfy's wire has other tokens, and checks them itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from ipaddress import ip_address

from bridge.access.caller import Caller
from bridge.access.decision import Need, may
from bridge.access.errors import Refused, TooManyRequests
from bridge.access.refusals import report
from bridge.access.sessions import Sessions
from bridge.access.sources import FileSource, StoreSource
from bridge.access.token import Token
from bridge.access.tokens import Tokens
from bridge.service.pools.pools import Pools
from bridge.settings.settings import Settings
from bridge.store.kept.rates import Rate, Rates
from bridge.store.kept.tokens import StoredTokens


class Undecided(Exception):
    """Other machines can reach a port of the bridge, and no setting says who may use the port."""


def asks_for_tokens(settings: Settings) -> bool:
    """Whether requests need a token.

    Raises:
        Undecided: BRIDGE_ACCESS is not set, and other machines can reach the bridge.
    """
    if settings.access is None and not is_loopback(settings.http_host):
        raise Undecided(
            f"BRIDGE_HTTP_HOST is {settings.http_host or 'every address'}, which other machines can reach, and"
            " BRIDGE_ACCESS is not set: create a token (delaybridge token create) and set BRIDGE_ACCESS=tokens; or set"
            " BRIDGE_ACCESS=open if a proxy in front of the bridge decides who may use it"
        )
    return settings.access == "tokens"


class Access:
    """Checks the tokens of requests, and limits how many requests a second each token may make."""

    def __init__(self, tokens: Tokens, rates: Rates, sessions: Sessions) -> None:
        self._tokens = tokens
        self._rates = rates
        self._sessions = sessions

    @classmethod
    def of(cls, pools: Pools) -> Access | None:
        """Returns the `Access` that the settings require; None if requests need no token. Adds the loop that reads
        tokens to the default pool's service.

        Raises:
            Undecided: BRIDGE_ACCESS is not set, and other machines can reach the bridge.
        """
        if not asks_for_tokens(pools.settings):
            return None
        service, file = pools.default, pools.settings.tokens_file
        keys = service.context.records.keys
        stored = StoredTokens(service.loops_context.store, keys)
        tokens = Tokens(FileSource(file) if file is not None else StoreSource(stored))
        service.add(tokens)
        return cls(tokens, Rates(service.context.store, keys), Sessions(service.sessions))

    async def admit(
        self,
        authorizations: Sequence[bytes],
        need: Need,
        topic: Callable[[], str] | None = None,
        *,
        session: str | None = None,
    ) -> Caller:
        """Checks that a request's token allows the request, and returns the caller.

        Args:
            authorizations: the values of the request's Authorization headers.
            need: the scope and the rights that the operation requires.
            topic: returns the request's topic. None: no topic is checked here. If the body names topics, the handler
                checks them.
            session: the cookie of a browser's session, which counts instead of `authorizations`. None: no session.

        Raises:
            Refused: the token or session is missing or invalid, does not allow the request, or its rate is used up.
            InvalidRequest: raised by `topic`, after the token and its scope were checked.
            Unavailable: Redis or the tokens' file can't be read, so the token or its rate could not be checked.
        """
        try:
            if session is None:
                token = await self._tokens.of(authorizations)
            else:
                token = await self._tokens.by_id(await self._sessions.token_id(session))
            refusal = may(token, need) or (may(token, need, topic()) if topic is not None else None)
            if refusal is not None:
                raise refusal
            await self._count(token, need)
        except Refused as refused:
            report(refused)
            raise
        return Caller(token, need, session)

    async def _count(self, token: Token, need: Need) -> None:
        per_s = token.per_s(need.scope) if need.rated else None
        if per_s is None:
            return
        wait_ms = await self._rates.admit(token.id, need.scope, Rate(per_s))
        if wait_ms:
            message = f"this token may make {per_s} requests a second with the scope {need.scope}: retry after a pause"
            raise TooManyRequests(message, token_id=token.id, wait_ms=wait_ms)


def is_loopback(host: str) -> bool:
    """Whether the host is `localhost`, or an address of the loopback interface such as 127.0.0.1 or ::1."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
