"""Reads the tokens from their source: Redis, or a file that other software manages."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final, Protocol

import structlog
from pydantic import TypeAdapter, ValidationError

from bridge.access.token import Token
from bridge.model.errors import Unavailable
from bridge.store.kept.tokens import StoredTokens

log = structlog.get_logger(__name__)

_LIST: Final = TypeAdapter(list[Token])


class TokensUnreadable(Unavailable):
    """The file with the tokens is missing or malformed."""


class Source(Protocol):
    """A place that keeps tokens. `tokens` returns the tokens by id. `version` costs little, and returns a different
    value after each change of the tokens. Both methods raise `Unavailable` if the place can't be read."""

    async def version(self) -> object: ...

    async def tokens(self) -> Mapping[str, Token]: ...


class StoreSource:
    """Reads the tokens from Redis."""

    def __init__(self, stored: StoredTokens) -> None:
        self._stored = stored

    async def version(self) -> object:
        return await self._stored.version()

    async def tokens(self) -> Mapping[str, Token]:
        """Returns the tokens by id. A malformed token is skipped and logged."""
        tokens: dict[str, Token] = {}
        for written in await self._stored.all():
            try:
                token = Token.model_validate_json(written)
            except ValidationError as error:
                log.warning("access.unreadable", problems=len(error.errors()))
            else:
                tokens[token.id] = token
        return tokens


class FileSource:
    """Reads the tokens from a file: a JSON array, as `delaybridge token list --json` prints it. Its methods raise
    `TokensUnreadable` if the file is missing or malformed."""

    def __init__(self, path: Path) -> None:
        self._path = path

    async def version(self) -> object:
        try:
            now = self._path.stat()
        except OSError as error:
            raise self._unreadable(error.strerror) from None
        return now.st_ino, now.st_mtime_ns, now.st_size

    async def tokens(self) -> Mapping[str, Token]:
        try:
            return {token.id: token for token in _LIST.validate_json(self._path.read_bytes())}
        except OSError as error:
            raise self._unreadable(error.strerror) from None
        except ValidationError as error:
            # Without the values: a secret that was put into the file by mistake must not get into the log.
            wrong = "; ".join(
                f"{'.'.join(map(str, details['loc'])) or 'all'}: {details['msg']}"
                for details in error.errors(include_input=False, include_url=False)
            )
            raise self._unreadable(wrong) from None

    def _unreadable(self, why: str | None) -> TokensUnreadable:
        return TokensUnreadable(f"BRIDGE_TOKENS_FILE {self._path} can't be read: {why}")
