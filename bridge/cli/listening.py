"""Says where a bridge listens and how many connections its limit of open files allows, and opens sockets to listen
on."""

from __future__ import annotations

import resource
import socket
import sys
from dataclasses import dataclass
from typing import Final, Self

import typer

from bridge.settings.roles import Role
from bridge.settings.settings import Settings

_OTHER_FILES: Final = 256


@dataclass(frozen=True, kw_only=True, slots=True)
class Files:
    """How many files a process wants to open, and its soft and hard limits of open files."""

    wanted: int
    soft: int
    hard: int

    @classmethod
    def of(cls, settings: Settings, limits: tuple[int, int]) -> Self:
        """Returns how many files a bridge with these settings wants to open, with the limits. `limits`: the process's
        soft and hard limits of open files."""
        # Each connection is an open file, and the process needs some files for its connections to RabbitMQ and Redis.
        return cls(wanted=settings.max_connections + _OTHER_FILES, soft=limits[0], hard=limits[1])

    @property
    def allowed(self) -> int:
        """How many of the wanted files the process can open, if it raises its soft limit."""
        return self.wanted if self.hard == resource.RLIM_INFINITY else min(self.wanted, self.hard)

    @property
    def to_raise(self) -> bool:
        return self.soft != resource.RLIM_INFINITY and self.soft < self.allowed

    @property
    def connections(self) -> int:
        """How many clients can be connected at the same time."""
        return max(1, self.allowed - _OTHER_FILES)


def addresses_of(settings: Settings) -> list[tuple[str, int]]:
    """Returns host and port of each address on which the HTTP server listens. One server serves all ports, and tells
    requests apart by their port."""
    addresses = [(settings.http_host, settings.http_port)]
    if Role.API not in settings.roles:
        return addresses
    if settings.lmstfy and settings.lmstfy_port is not None:
        addresses.append((settings.http_host, settings.lmstfy_port))
    if settings.lmstfy and settings.lmstfy_admin_port is not None:
        addresses.append((settings.lmstfy_admin_host, settings.lmstfy_admin_port))
    return addresses


def listen(host: str, port: int, *, shared: bool) -> socket.socket:
    """Returns a new socket that is bound to the address, so that a server can listen on it. `shared`: other processes
    may also listen on the port. Ends the command with code 1 if the process can't bind the address."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if shared:
        # Several processes share the port. The kernel spreads connections over them.
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    try:
        listening.bind((host, port))
    except OSError as error:
        print(f"can't listen on {host}:{port}: {error}", file=sys.stderr)
        raise typer.Exit(1) from None
    listening.set_inheritable(True)
    return listening
