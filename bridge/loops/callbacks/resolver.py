"""Looks up the addresses of a host in the operating system."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from ipaddress import ip_address

from bridge.model.addresses import Address, literal

_THREADS = 32


class UnknownHost(OSError):
    """The host has no address."""


class Resolver:
    """Looks hosts up in a pool of threads. At most one thread at a time looks up a given host.

    So a name server that does not answer delays only the callers that ask for its hosts.
    """

    def __init__(self, look_up: Callable[[str], Sequence[str]] | None = None) -> None:
        """`look_up`: takes a host and returns its addresses as text; None: the operating system's look-up."""
        self._look_up = look_up or _look_up
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="names")
        self._lookups: dict[str, asyncio.Future[Sequence[str]]] = {}

    async def addresses(self, host: str) -> Sequence[Address]:
        """Returns all addresses of a host, in the order in which a client should try them.

        Raises:
            UnknownHost: the host has no address.
        """
        if (address := literal(host)) is not None:
            return [address]
        lookup = self._lookups.get(host)
        if lookup is None:
            lookup = asyncio.get_running_loop().run_in_executor(self._threads, self._look_up, host)
            self._lookups[host] = lookup
            lookup.add_done_callback(partial(self._finished, host))
        try:
            # A caller that gives up must not cancel the look-up: other callers may wait for it.
            addresses = await asyncio.shield(lookup)
        except (OSError, UnicodeError):
            raise UnknownHost(f"{host} has no address") from None
        return [ip_address(address) for address in addresses]

    def _finished(self, host: str, lookup: asyncio.Future[Sequence[str]]) -> None:
        del self._lookups[host]
        if not lookup.cancelled():
            lookup.exception()  # marks it as retrieved: asyncio warns of errors that no caller waited for

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


def _look_up(host: str) -> list[str]:
    results = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    # The name of an interface follows a link-local address, behind "%".
    return list(dict.fromkeys(str(sockaddr[0]).partition("%")[0] for *_, sockaddr in results))
