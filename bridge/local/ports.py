"""Finds free TCP ports on loopback."""

from __future__ import annotations

import json
import random
import socket
from collections.abc import Sequence
from pathlib import Path

LOWEST_PORT = 10_000


def free_ports(count: int) -> list[int]:
    """Returns ports that are free now. No other process gets them from this function while this process lives.

    The ports are below the range that the kernel uses for outgoing connections. So a server that is killed and started
    again finds its port free.
    """
    ports: list[int] = []
    while len(ports) < count:
        port = random.randrange(LOWEST_PORT, _first_ephemeral_port())
        if is_free(port) and _reserve(port):
            ports.append(port)
    return ports


def kept_ports(file: Path, names: Sequence[str]) -> dict[str, int]:
    """Returns a free port for each name: the port that the file has for the name, if it is still free. Writes the ports
    to the file."""
    try:
        former = dict(json.loads(file.read_text()))
    except (OSError, ValueError, TypeError):
        former = {}
    ports = {name: _kept(former.get(name)) or free_ports(1)[0] for name in names}
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(ports) + "\n")
    return ports


def _kept(port: object) -> int | None:
    if isinstance(port, int) and LOWEST_PORT <= port < 65_536 and is_free(port) and _reserve(port):
        return port
    return None


def is_free(port: int, host: str = "127.0.0.1") -> bool:
    """Whether a server could listen on the port now."""
    with socket.socket() as probe:
        # Servers set this option too: a port with connections in TIME_WAIT counts as free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True


def is_served(port: int, host: str = "127.0.0.1") -> bool:
    """Whether a server accepts connections on the port now."""
    try:
        socket.create_connection((host, port), timeout=1).close()
    except OSError:
        return False
    return True


def _reserve(port: int) -> bool:
    """Reserves the port for this process. Returns False if another process has reserved it.

    The reservation is the UDP port with the same number, which no server here uses. It also holds while the server on
    the TCP port has not started yet, or is killed and started again.
    """
    reservation = socket.socket(type=socket.SOCK_DGRAM)
    try:
        reservation.bind(("127.0.0.1", port))
    except OSError:
        reservation.close()
        return False
    reservation.detach()  # the reservation ends with the process
    return True


def _first_ephemeral_port() -> int:
    setting = Path("/proc/sys/net/ipv4/ip_local_port_range")
    first = int(setting.read_text().split()[0]) if setting.exists() else 32_768
    # If the kernel uses nearly every port for outgoing connections, we share its range.
    return first if first > LOWEST_PORT + 1000 else 60_000
