"""Keeps all tokens in memory, so that a request costs one look-up in a dict.

The tokens are read again within a second of a change. For a request with an unknown token they are read at once, so a
new token works as soon as it is created. Requests that arrive together share that read. There are at most twenty such
reads a second, however many clients guess tokens.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from time import monotonic, time
from typing import NoReturn

from bridge.access.errors import NOT_VALID, InvalidToken, NoToken
from bridge.access.sources import Source
from bridge.access.token import Token, presented
from bridge.model import log_scope
from bridge.model.part_state import OK
from bridge.service.health.supervisor import Status, retrying

_EVERY_S = 1.0
_PACE_S = 0.05
_HOW = "send it in one header, Authorization: Bearer dbt_..."


class Tokens:
    """Keeps the tokens of a source in memory, and reads changes once a second. While the source is away, the tokens of
    the last read stay valid."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._version: object = None
        self._known: Mapping[str, Token] = {}
        # Verified tokens of `_known` by the value of their Authorization header.
        self._verified: dict[bytes, Token] = {}
        self._reading = asyncio.Lock()
        self._next_read: asyncio.Task[None] | None = None
        self._last_read_s = 0.0
        self.status = Status("access", state=OK, retry_s=_EVERY_S)

    async def run(self) -> NoReturn:
        """Reads changes of the tokens for ever; waits while the source is away."""
        await retrying(self.status, self._read)

    async def _read(self) -> float:
        await self.run_once()
        return _EVERY_S

    async def run_once(self) -> None:
        """Reads the tokens if they changed.

        Raises:
            Unavailable: the source did not answer, or its file can't be read.
        """
        async with self._reading:
            version = await self._source.version()
            if version != self._version:
                self._known = await self._source.tokens()
                self._verified, self._version = {}, version

    async def of(self, authorizations: Sequence[bytes]) -> Token:
        """Returns the token of a request. `authorizations`: the values of the request's `Authorization` headers.

        Raises:
            NoToken: the request has no `Authorization` header, or one without a token.
            InvalidToken: the token is malformed, unknown, expired or revoked, or there are several such headers.
            Unavailable: this process does not know the token, and the source is away.
        """
        if len(authorizations) != 1:
            if authorizations:
                raise InvalidToken(f"the request has {len(authorizations)} Authorization headers, not one: {_HOW}")
            raise NoToken(f"this request needs a token: {_HOW}")
        return _unexpired(self._verified.get(authorizations[0]) or await self._verify(authorizations[0]))

    async def by_id(self, token_id: str) -> Token:
        """Returns the token with this id, which a browser's session names.

        Raises:
            InvalidToken: the token is unknown, expired or revoked.
            Unavailable: this process does not know the token, and the source is away.
        """
        if token_id not in self._known:
            await self._read_again()
        token = self._known.get(token_id)
        if token is None:
            raise _not_valid(None)
        return _unexpired(token)

    async def _verify(self, authorization: bytes) -> Token:
        if (presented_token := presented(authorization)) is None:
            if authorization[:6].lower() != b"bearer":
                raise NoToken(f"this request needs a token, and its Authorization header has none: {_HOW}")
            raise InvalidToken(f"the token is malformed: {_HOW}")
        token_id, secret = presented_token
        if token_id not in self._known:
            await self._read_again()
        token = self._known.get(token_id)
        if token is None or not token.is_of(secret):
            raise _not_valid(token)
        self._verified[authorization] = token
        return token

    async def _read_again(self) -> None:
        """Waits for the next read of the source. Schedules that read, unless an earlier caller has scheduled it."""
        if self._next_read is None:
            self._next_read = log_scope.shared_task(self._paced_read())
            self._next_read.add_done_callback(_retrieve_error)
        await asyncio.shield(self._next_read)

    async def _paced_read(self) -> None:
        await asyncio.sleep(self._last_read_s + _PACE_S - monotonic())
        self._next_read, self._last_read_s = None, monotonic()
        await self.run_once()


def _unexpired(token: Token) -> Token:
    if token.expires_ms is not None and token.expires_ms <= time() * 1_000:
        raise _not_valid(token)
    return token


def _not_valid(token: Token | None) -> InvalidToken:
    return InvalidToken(NOT_VALID, token_id=None if token is None else token.id)


def _retrieve_error(done: asyncio.Task[None]) -> None:
    # Every waiting request may have been cancelled. asyncio would then complain about an error nobody retrieved.
    if not done.cancelled():
        done.exception()
