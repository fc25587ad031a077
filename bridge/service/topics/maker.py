"""Describes a client that may make a limited number of topics."""

from __future__ import annotations

from typing import NoReturn, Protocol


class Maker(Protocol):
    """A client that may make a limited number of topics. `token_id`: the id of the client's token; the bridge counts
    the topics of each token. `max_topics`: how many topics of this token may exist in one pool."""

    @property
    def token_id(self) -> str: ...

    @property
    def max_topics(self) -> int: ...

    def refuse(self, topic: str, made: int) -> NoReturn:
        """Raises the error that refuses a new topic. `made`: how many topics already count against the client's
        limit."""
        ...
