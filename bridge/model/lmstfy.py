"""Defines the tokens of lmstfy's wire and their rate limits."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenLimit:
    """How many requests a token may make in each window of `interval` seconds.

    `read` limits consumes, `write` limits publishes, and 0 is no limit. lmstfy's admin port shows these field names.
    """

    read: int
    write: int
    interval: int


@dataclass(frozen=True, slots=True)
class LmstfyToken:
    """A token of lmstfy's wire. It gives access to the namespace, in the pool. `secret`: what the client sends."""

    pool: str
    namespace: str
    secret: str

    def __str__(self) -> str:
        return f"{self.pool}/{self.namespace}/{self.secret}"
