"""What a request is refused with before anything is read or done for it, added to the bridge's tree of errors.

BridgeError
└── Refused
    ├── NoToken          none was given
    ├── InvalidToken     it is malformed, not known, expired or revoked: which, is told to nobody
    ├── NotAllowed       it lacks the scope, or is not for the topic, whether or not there is one
    └── TooManyRequests  it has used up its requests a second
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from bridge.model.errors import BridgeError

if TYPE_CHECKING:
    from bridge.access.token import Scope

_REALM = 'Bearer realm="delaybridge"'


class Refused(BridgeError):
    """`kind` is for counting; `token_id` is of the token that was named, where there is one of that id."""

    kind: ClassVar[str]

    def __init__(self, message: str, *, token_id: str | None = None) -> None:
        super().__init__(message)
        self.token_id = token_id

    @property
    def headers(self) -> dict[str, str]:
        """The answer's, as RFC 6750 (section 3) has them."""
        return {}


class NoToken(Refused):
    kind = "no_token"

    @property
    def headers(self) -> dict[str, str]:
        return {"WWW-Authenticate": _REALM}


class InvalidToken(Refused):
    kind = "invalid_token"

    @property
    def headers(self) -> dict[str, str]:
        return {"WWW-Authenticate": f'{_REALM}, error="invalid_token"'}


class NotAllowed(Refused):
    kind = "insufficient_scope"

    def __init__(self, message: str, *, token_id: str, scope: Scope) -> None:
        super().__init__(message, token_id=token_id)
        self.scope = scope

    @property
    def headers(self) -> dict[str, str]:
        return {"WWW-Authenticate": f'{_REALM}, error="insufficient_scope", scope="{self.scope}"'}


class TooManyRequests(Refused):
    kind = "too_many_requests"

    def __init__(self, message: str, *, token_id: str, wait_ms: int) -> None:
        super().__init__(message, token_id=token_id)
        self.retry_after_s = -(-wait_ms // 1_000)

    @property
    def headers(self) -> dict[str, str]:
        return {"Retry-After": str(self.retry_after_s)}
