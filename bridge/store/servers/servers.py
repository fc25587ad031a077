"""What the store needs from the servers it is kept on, whichever way they are run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Protocol

from hiredis import pack_command

from bridge.model.breaker import Breaker


class Question(NamedTuple):
    """One command as it goes over the line, and a key that says which server is asked."""

    key: str
    packed: bytes


def packed(key: str, *words: Any) -> Question:
    return Question(key, pack_command(words))


class Servers(Protocol):
    async def ask(self, questions: Sequence[Question], *, timed: bool = False) -> list[Any]:
        """Asks all at once, those that one server is asked in their order; the answers in order, with what a server
        refused as exceptions among them. `timed`: the answers carry the server's time, in Unix ms, in second place.

        Raises:
            StoreUnavailable, RedisError, OSError, TimeoutError: some of them may have run.
        """

    async def hear(self, keys: Sequence[str]) -> None:
        """Hears the time of the servers of these keys; with none, of all of them, and one that answers is enough.

        Raises:
            StoreUnavailable, RedisError, OSError, TimeoutError
        """

    async def ask_each(self, question: Question) -> list[Any]:
        """Asks every server the same; one answer of each.

        Raises:
            StoreUnavailable, RedisError, OSError, TimeoutError
        """

    def apart(self, keys: Sequence[str]) -> list[list[int]]:
        """The places of the keys, in order, by the server that each lives on, as far as is known here."""

    @property
    def breakers(self) -> Iterable[Breaker]: ...

    async def close(self) -> None: ...
