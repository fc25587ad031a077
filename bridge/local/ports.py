"""Free TCP ports on loopback."""

from __future__ import annotations

import random
import socket
from pathlib import Path

LOWEST_PORT = 10_000


def free_ports(count: int) -> list[int]:
    """`count` ports that are free at the moment, and given to nobody else on this machine while the process lives.

    They lie below the range the kernel hands to outgoing connections, so a server that is killed
    and started again finds its port still free.
    """
    found: list[int] = []
    while len(found) < count:
        port = random.randrange(LOWEST_PORT, _first_ephemeral_port())
        if is_free(port) and _taken(port):
            found.append(port)
    return found


def is_free(port: int, host: str = "127.0.0.1") -> bool:
    """Whether a server could listen on the port now."""
    with socket.socket() as probe:
        # As servers do it: a port with connections in TIME_WAIT counts as free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True


def is_served(port: int, host: str = "127.0.0.1") -> bool:
    """Whether a server takes connections on the port now."""
    try:
        socket.create_connection((host, port), timeout=1).close()
    except OSError:
        return False
    return True


def _taken(port: int) -> bool:
    """Takes the port for this process, by its namesake of UDP, which no server here uses: until its own server listens,
    and while that is killed and started again, another process may look for one."""
    namesake = socket.socket(type=socket.SOCK_DGRAM)
    try:
        namesake.bind(("127.0.0.1", port))
    except OSError:
        namesake.close()
        return False
    namesake.detach()  # it ends with the process
    return True


def _first_ephemeral_port() -> int:
    setting = Path("/proc/sys/net/ipv4/ip_local_port_range")
    first = int(setting.read_text().split()[0]) if setting.exists() else 32_768
    # A machine that hands out nearly every port leaves us to share its range.
    return first if first > LOWEST_PORT + 1000 else 60_000
