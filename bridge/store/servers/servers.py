"""Defines the interface between the store and its Redis servers: one server, a sentinel's master, or a cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, Protocol

from hiredis import pack_command

from bridge.model.breaker import Breaker
from bridge.store.replies import Reply


class PackedCommand(NamedTuple):
    """One command in the Redis protocol, and a key that selects the server."""

    key: str
    packed: bytes


def pack(key: str, *words: Any) -> PackedCommand:
    return PackedCommand(key, pack_command(words))


class Servers(Protocol):
    @property
    def title(self) -> str:
        """The name of the servers in errors, with their address: `Redis at 127.0.0.1:6379`."""

    async def ask(self, commands: Sequence[PackedCommand], *, timed: bool = False) -> list[Reply]:
        """Sends all commands together. Commands for one server run in order. Returns one answer for each command, in
        order: an exception for a command that a server refuses. `timed`: the commands' answers are lists, and the
        second item of each is the server's time in Unix ms.

        Raises:
            StoreUnavailable: too many callers wait, or a server of a cluster is away; some commands may have run.
            RedisError, OSError, TimeoutError: the connection failed, or no answer came in time; some commands may have
                run.
        """

    async def learn_time(self, keys: Sequence[str]) -> None:
        """Asks the servers of these keys for their time. Without keys it asks all servers, and one answer is enough.

        Raises:
            StoreUnavailable, RedisError, OSError, TimeoutError: a server did not answer in time, or the connection
                failed.
        """

    async def ask_each(self, command: PackedCommand) -> list[Reply]:
        """Sends the command to every server, and returns an answer for each.

        Raises:
            StoreUnavailable, RedisError, OSError, TimeoutError: a server did not answer in time, or the connection
                failed.
        """

    async def key_on_each(self, key: Callable[[int], str]) -> list[str]:
        """Returns one key on each server. If a cluster slot has no server, adds a key of such a slot. `key`: makes a
        key from a number.

        Raises:
            StoreUnavailable, RedisError, OSError, TimeoutError: no server said which keys it has.
        """

    def by_server(self, keys: Sequence[str]) -> list[list[int]]:
        """Groups the keys by server. Returns lists of indexes into `keys`. Keys whose server is unknown are one
        group."""

    @property
    def breakers(self) -> Iterable[Breaker]: ...

    async def close(self) -> None: ...
