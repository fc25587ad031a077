"""Opens sessions for browsers, which keep a cookie in place of the token.

The cookie is `<token id>_<secret>`. The session's secret is 32 random bytes, and Redis has only its SHA-256. So neither
the cookie nor Redis shows the token's secret. A session ends at sign-out, when its token expires or is revoked, or
after twelve hours. Each token has at most 20 sessions; a further session ends the oldest one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from bridge.access.errors import InvalidToken
from bridge.access.token import Token, new_secret, sha256_of
from bridge.store.kept.sessions import StoredSessions

COOKIE: Final = "delaybridge_session"
_VALUE: Final = re.compile(r"([0-9a-f]{12})_([0-9a-f]{64})")
_IN_HEADER: Final = re.compile(rb"(?:^|;)[ ]*" + COOKIE.encode() + rb"=([0-9a-f]{12}_[0-9a-f]{64})[ ]*(?:;|$)")
_ENDED: Final = "the session has ended: sign in again with a token"


@dataclass(frozen=True, slots=True)
class Opened:
    """A session that was opened. `cookie`: its cookie's value. `ends_ms`: when it ends at the latest, in Unix ms."""

    cookie: str
    ends_ms: int


class Sessions:
    """Opens, finds and ends sessions, which all bridges with one Redis share. Each method raises StoreUnavailable if
    Redis does not answer."""

    def __init__(self, stored: StoredSessions) -> None:
        self._stored = stored

    async def open(self, token: Token) -> Opened:
        """Opens a session for the token. It ends when the token expires, at the latest after twelve hours. The 21st
        session of a token ends its oldest one."""
        secret = new_secret()
        ends_ms = await self._stored.add(token.id, sha256_of(secret), token.expires_ms)
        return Opened(f"{token.id}_{secret}", ends_ms)

    async def token_id(self, cookie: str) -> str:
        """Returns the id of the token that opened the session. `cookie`: the value of the session's cookie.

        Raises:
            InvalidToken: the cookie is malformed, or its session does not exist or has ended.
        """
        token_id, sha256 = _read(cookie)
        if not await self._stored.lives(token_id, sha256):
            raise InvalidToken(_ENDED)
        return token_id

    async def close(self, cookie: str) -> None:
        """Ends the session of the cookie, if there is one.

        Raises:
            InvalidToken: the cookie is malformed.
        """
        await self._stored.remove(*_read(cookie))


def cookie_in(headers: Iterable[tuple[bytes, bytes]]) -> str | None:
    """Returns the value of the session's cookie in a request's headers. None: the cookie is missing or malformed."""
    for name, value in headers:
        if name == b"cookie" and (match := _IN_HEADER.search(value)) is not None:
            return match[1].decode()
    return None


def _read(cookie: str) -> tuple[str, str]:
    match = _VALUE.fullmatch(cookie)
    if match is None:
        raise InvalidToken(_ENDED)
    return match[1], sha256_of(match[2])
