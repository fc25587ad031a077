"""All tokens, kept in memory and up to date: a request costs one look-up in a dict.

A second after a change at the latest it is read. Where a request names a token that is not known here, its source is
asked at once, so that a token is good as soon as it was made; those who ask together share the answer, and it is asked
no more often than twenty times a second, however many guess.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from time import monotonic, time

import structlog

from bridge.access.errors import InvalidToken, NoToken
from bridge.access.sources import Source
from bridge.access.token import Token, presented
from bridge.model.errors import Unavailable
from bridge.service.supervisor import waiting

log = structlog.get_logger(__name__)

_EVERY_S = 1.0
_PACE_S = 0.05
_HOW = "give it in one header, Authorization: Bearer dbt_..."


class Tokens:
    """A loop beside the front end. While the source is away, the tokens last known go on."""

    name = "access"

    def __init__(self, source: Source) -> None:
        self._source = source
        self._version: object = None
        self._known: Mapping[str, Token] = {}
        # By the header's value as it came; all are of `_known`.
        self._verified: dict[bytes, Token] = {}
        self._reading = asyncio.Lock()
        self._coming: asyncio.Task[None] | None = None
        self._asked_s = 0.0
        self.state = "ok"

    async def run(self) -> None:
        """Runs for ever; a source that is away is waited for."""
        while True:
            try:
                await self.run_once()
                self.state = "ok"
            except Unavailable as error:
                if self.state == "ok":
                    log.warning("access.waiting", reason=str(error))
                self.state = waiting(error)
            await asyncio.sleep(_EVERY_S)

    async def run_once(self) -> None:
        """Reads the tokens if they are others than before.

        Raises:
            Unavailable
        """
        async with self._reading:
            version = await self._source.version()
            if version != self._version:
                self._known = await self._source.tokens()
                self._verified, self._version = {}, version

    async def of(self, authorizations: Sequence[bytes]) -> Token:
        """The token that a request's `Authorization` headers give.

        Raises:
            NoToken, InvalidToken
            Unavailable: it is not known here, and its source is away.
        """
        if len(authorizations) != 1:
            if authorizations:
                raise InvalidToken(f"there are {len(authorizations)} Authorization headers: {_HOW}")
            raise NoToken(f"this needs a token: {_HOW}")
        token = self._verified.get(authorizations[0]) or await self._verify(authorizations[0])
        if token.expires_ms is not None and token.expires_ms <= time() * 1_000:
            raise _not_valid(token)
        return token

    async def _verify(self, authorization: bytes) -> Token:
        if (found := presented(authorization)) is None:
            if authorization[:6].lower() != b"bearer":
                raise NoToken(f"this needs a token, and the Authorization header has none: {_HOW}")
            raise InvalidToken(f"the token is malformed: {_HOW}")
        token_id, secret = found
        if token_id not in self._known:
            await self._look()
        token = self._known.get(token_id)
        if token is None or not token.is_of(secret):
            raise _not_valid(token)
        self._verified[authorization] = token
        return token

    async def _look(self) -> None:
        """Waits for a look at the source that begins from here on."""
        if self._coming is None:
            self._coming = asyncio.create_task(self._paced())
            self._coming.add_done_callback(_retrieved)
        await asyncio.shield(self._coming)

    async def _paced(self) -> None:
        await asyncio.sleep(self._asked_s + _PACE_S - monotonic())
        self._coming, self._asked_s = None, monotonic()
        await self.run_once()


def _not_valid(token: Token | None) -> InvalidToken:
    return InvalidToken(
        "the token is not known, has expired, or was revoked", token_id=None if token is None else token.id
    )


def _retrieved(done: asyncio.Task[None]) -> None:
    # Everyone who waited for it may have gone, and then nobody else would take the error.
    if not done.cancelled():
        done.exception()
