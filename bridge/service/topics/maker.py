"""Describes a client that may make a limited number of topics."""

from __future__ import annotations

from typing import NoReturn, Protocol


class Maker(Protocol):
    """A client whose new topics are counted. `token_id`: whose topics they are. `max_topics`: the most that may exist
    in one pool."""

    @property
    def token_id(self) -> str: ...

    @property
    def max_topics(self) -> int: ...

    def refuse(self, topic: str, made: int) -> NoReturn:
        """Raises the refusal of a new topic. `made`: how many topics of this client exist."""
        ...
