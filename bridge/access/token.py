"""Defines a token: its id, the hash of its secret, and what it allows.

A token's text is `dbt_<id>_<secret>`, which scanners for leaked secrets can find. The id is public: lists, logs and
commands name a token by it. The bridge keeps only the SHA-256 of the secret, which is 32 random bytes. A slow hash is
not needed: from 112 bits of entropy on, one approved hash is enough (NIST SP 800-63B, 5.1.2.2, on look-up secrets).
"""

from __future__ import annotations

import re
import secrets
from enum import StrEnum
from hashlib import sha256
from hmac import compare_digest
from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field

from bridge.model.globs import matches
from bridge.model.reach import Reach
from bridge.model.values import LARGEST_BODY
from bridge.store.kept.made_topics import MOST as MOST_TOPICS

NAMESPACE_PATTERN: Final = r"^[A-Za-z0-9_.-]{1,100}$"
NAME_PATTERN: Final = r"^[!-~]([ -~]{0,98}[!-~])?$"
TARGET_PATTERN: Final = r"^[^\x00]{1,255}$"
MAX_PER_S: Final = 100_000

_WRITTEN = re.compile(rb"dbt_([0-9a-f]{12})_([0-9a-f]{64})")
_CREDENTIALS = re.compile(rb"(?i:bearer) {1,8}" + _WRITTEN.pattern)


class Scope(StrEnum):
    """A group of operations that a token allows. Each scope includes `look`."""

    LOOK = "look"
    SEND = "send"
    CONSUME = "consume"
    ADMIN = "admin"


PerSecond = Annotated[int, Field(ge=1, le=MAX_PER_S)]


class Token(BaseModel):
    """One token. `sha256`: the SHA-256 of the token's secret, in hexadecimal. `created_ms` and `expires_ms` are in Unix
    ms; `expires_ms` None: the token does not expire.

    The token may use all topics (`every_topic`), those of `namespaces`, and with `bare_topics` those without a
    namespace. `targets`: the exchanges to which its messages may go; `*` stands for any text. A limit that is None does
    not apply, but for `max_body` then the bridge's limit applies.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    id: Annotated[str, Field(pattern="^[0-9a-f]{12}$")]
    name: Annotated[str, Field(pattern=NAME_PATTERN)]
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    scopes: Annotated[tuple[Scope, ...], Field(min_length=1)]
    namespaces: tuple[Annotated[str, Field(pattern=NAMESPACE_PATTERN)], ...] = ()
    bare_topics: bool = False  # topics without a namespace
    every_topic: bool = False
    sends_per_s: PerSecond | None = None
    pulls_per_s: PerSecond | None = None
    max_body: Annotated[int, Field(ge=1, le=LARGEST_BODY)] | None = None  # bytes of a message's body
    # The most topics made by the token that may exist in each pool. Not written if there is no limit: a bridge refuses
    # a token with an unknown field.
    max_topics: Annotated[int, Field(ge=1, le=MOST_TOPICS)] | None = Field(
        default=None, exclude_if=lambda limit: limit is None
    )
    # Exchanges to which the token's messages may go; `*` stands for any text. Empty by default: RabbitMQ checks only
    # the bridge's own user, whose rights are wider. Not written if empty, for the reason at `max_topics`.
    targets: tuple[Annotated[str, Field(pattern=TARGET_PATTERN)], ...] = Field(
        default=(), exclude_if=lambda targets: not targets
    )
    created_ms: int
    expires_ms: int | None = None

    def reaches(self, topic: str) -> bool:
        """Whether the token may use the topic."""
        return self.every_topic or self.reach.has(topic)

    def sends_to(self, exchange: str) -> bool:
        """Whether the token may send messages to this exchange of another application."""
        return any(matches(pattern, exchange) for pattern in self.targets)

    @property
    def reach(self) -> Reach:
        """The topics that the token may use."""
        return Reach(every_topic=self.every_topic, namespaces=self.namespaces, bare_topics=self.bare_topics)

    def is_of(self, secret: bytes) -> bool:
        """Whether `secret` is the token's secret. The comparison takes constant time."""
        return compare_digest(_digest(secret), self.sha256)

    def per_s(self, scope: Scope) -> int | None:
        """The most requests a second that the token may make with this scope; None: no limit. Only the scopes `send`
        and `consume` can have a limit."""
        return {Scope.SEND: self.sends_per_s, Scope.CONSUME: self.pulls_per_s}.get(scope)


def new_id() -> str:
    return secrets.token_hex(6)


def new_secret() -> str:
    return secrets.token_hex(32)


def sha256_of(secret: str) -> str:
    return _digest(secret.encode())


def written(token_id: str, secret: str) -> str:
    return f"dbt_{token_id}_{secret}"


def presented(authorization: bytes) -> tuple[str, bytes] | None:
    """Returns the token's id and secret in an Authorization header's value. None: it has no well-formed token."""
    match = _CREDENTIALS.fullmatch(authorization)
    return None if match is None else (match[1].decode(), match[2])


def masked(text: bytes) -> bytes:
    """Returns the text with `...` in place of the secret of every token in it."""
    return _WRITTEN.sub(rb"dbt_\1_...", text) if b"dbt_" in text else text


def _digest(secret: bytes) -> str:
    return sha256(secret).hexdigest()
