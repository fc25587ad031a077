"""Adds the errors of refused requests to the bridge's tree of errors.

BridgeError
└── Refused
    ├── NoToken          the request has no token
    ├── InvalidToken     the token is malformed, unknown, expired or revoked; the error does not say which
    ├── ForeignSite      a page of another site made the request, and the bridge requires no token
    │   └── OtherSite    a page of another site made the request with the session of a browser
    ├── NotAllowed       the token lacks the scope, or may not use the topic, whether or not it exists
    ├── TooManyTopics    the topic is new, and the token may make no more topics
    └── TooManyRequests  the token made too many requests a second
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from bridge.model.errors import BridgeError, FieldError

if TYPE_CHECKING:
    from bridge.access.token import Scope

NOT_VALID: Final = "the token is unknown, expired or revoked: ask the operator for a new one"
_SHOWN: Final = 100  # characters of a header
_REALM = 'Bearer realm="delaybridge"'


class Refused(BridgeError):
    """The request is not allowed. `kind`: the value of the label `kind` in the metric
    `delaybridge_access_refused_total`. `token_id`: the id of the token that the request names; None: it names no token,
    or one that does not exist."""

    kind: ClassVar[str]

    def __init__(self, message: str, *, token_id: str | None = None) -> None:
        super().__init__(message)
        self.token_id = token_id

    @property
    def headers(self) -> dict[str, str]:
        """The headers that the refusal adds to the answer: `WWW-Authenticate` (RFC 6750, section 3) or
        `Retry-After`."""
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


class ForeignSite(Refused):
    """A page of another site made the request, and the bridge requires no token. `header`: the header that names the
    other site, Host or Origin. `value`: the header's value."""

    kind = "foreign_site"

    def __init__(self, header: str, value: str) -> None:
        super().__init__(
            f"{header} is {value[:_SHOWN]!r}, and a bridge without tokens allows only localhost and loopback addresses:"
            " use one of them; or set BRIDGE_ACCESS=tokens, or BRIDGE_ACCESS=open if a proxy in front decides"
        )


class OtherSite(ForeignSite):
    """A page of another site made a request with a browser's session, or no header says which page made it. `header`:
    Sec-Fetch-Site or Origin. `value`: the header's value; empty if the request has neither header."""

    def __init__(self, header: str, value: str) -> None:
        says = f"{header} is {value[:_SHOWN]!r}" if value else "it has neither Sec-Fetch-Site nor Origin"
        Refused.__init__(
            self,
            f"a page of this bridge must make a request with a session, and {says}: use the console of this bridge,"
            " or send a token in Authorization",
        )


class NotAllowed(Refused):
    kind = "insufficient_scope"

    def __init__(self, message: str, *, token_id: str, scope: Scope) -> None:
        super().__init__(message, token_id=token_id)
        self.scope = scope

    @property
    def headers(self) -> dict[str, str]:
        return {"WWW-Authenticate": f'{_REALM}, error="insufficient_scope", scope="{self.scope}"'}


class TooManyTopics(Refused):
    """The topic is new, and the token has reached its limit of topics. `made`: how many of the pool's topics the token
    has made. `limit`: how many it may make."""

    kind = "too_many_topics"

    def __init__(self, topic: str, *, token_id: str, made: int, limit: int) -> None:
        reason = f"is new, and this token has made {made} topics that exist; its limit is {limit}: remove one of them"
        super().__init__(f"the topic {topic!r} {reason}", token_id=token_id)
        self.errors = (FieldError(field="topic", value=topic, limit=limit, message=reason),)


class TooManyRequests(Refused):
    kind = "too_many_requests"

    def __init__(self, message: str, *, token_id: str, wait_ms: int) -> None:
        super().__init__(message, token_id=token_id)
        self.retry_after_s = -(-wait_ms // 1_000)

    @property
    def headers(self) -> dict[str, str]:
        return {"Retry-After": str(self.retry_after_s)}
