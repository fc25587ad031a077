"""Where the tokens are: in Redis, or in a file that something else keeps."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final, Protocol

import structlog
from pydantic import TypeAdapter, ValidationError

from bridge.access.token import Token
from bridge.model.errors import Unavailable
from bridge.store.tokens import StoredTokens

log = structlog.get_logger(__name__)

_LIST: Final = TypeAdapter(list[Token])


class TokensUnreadable(Unavailable):
    """The file of tokens is missing or malformed."""


class Source(Protocol):
    """Both raise `Unavailable`. `version` is cheap, and another one when the tokens are others."""

    async def version(self) -> object: ...

    async def tokens(self) -> Mapping[str, Token]: ...


class StoreSource:
    def __init__(self, stored: StoredTokens) -> None:
        self._stored = stored

    async def version(self) -> object:
        return await self._stored.version()

    async def tokens(self) -> Mapping[str, Token]:
        """Those that can be read: another one is nobody's, and told to the log."""
        found: dict[str, Token] = {}
        for written in await self._stored.all():
            try:
                token = Token.model_validate_json(written)
            except ValidationError as error:
                log.warning("access.unreadable", problems=len(error.errors()))
            else:
                found[token.id] = token
        return found


class FileSource:
    """A JSON array as `delaybridge token list --json` prints it."""

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
            # Without the values: whoever wrote a secret there by mistake must not find it in a log.
            wrong = "; ".join(
                f"{'.'.join(map(str, one['loc'])) or 'all'}: {one['msg']}"
                for one in error.errors(include_input=False, include_url=False)
            )
            raise self._unreadable(wrong) from None

    def _unreadable(self, why: str | None) -> TokensUnreadable:
        return TokensUnreadable(f"BRIDGE_TOKENS_FILE {self._path} can't be read: {why}")
