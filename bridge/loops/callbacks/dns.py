"""The addresses of a host, as the system knows them."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from ipaddress import ip_address

from bridge.model.addresses import Address, literal

_THREADS = 32


class NameUnknown(OSError):
    """The host has no address, or nobody said which in time."""


class Names:
    """Looks names up in threads of its own, a name in one at a time: name servers that do not answer keep none but
    those who ask them waiting."""

    def __init__(self, look_up: Callable[[str], Sequence[str]] | None = None) -> None:
        """`look_up`: in place of the system's."""
        self._look_up = look_up or _look_up
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="names")
        self._asked: dict[str, asyncio.Future[Sequence[str]]] = {}

    async def addresses(self, host: str) -> Sequence[Address]:
        """All of them, in the order in which they are to be tried.

        Raises:
            NameUnknown
        """
        if (address := literal(host)) is not None:
            return [address]
        asked = self._asked.get(host)
        if asked is None:
            asked = asyncio.get_running_loop().run_in_executor(self._threads, self._look_up, host)
            self._asked[host] = asked
            asked.add_done_callback(partial(self._answered, host))
        try:
            # Whoever gives up leaves the thread to those who ask next.
            found = await asyncio.shield(asked)
        except (OSError, UnicodeError):
            raise NameUnknown(f"{host} has no address") from None
        return [ip_address(address) for address in found]

    def _answered(self, host: str, asked: asyncio.Future[Sequence[str]]) -> None:
        del self._asked[host]
        if not asked.cancelled():
            asked.exception()  # it may be that nobody waits for it any more

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


def _look_up(host: str) -> list[str]:
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    # An address of one link has that link's name behind it.
    return list(dict.fromkeys(str(sockaddr[0]).partition("%")[0] for *_, sockaddr in found))
