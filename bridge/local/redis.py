"""Runs a private Redis server on loopback, with an append-only file."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import ClassVar, Literal

from bridge.local.certificates import Certificates
from bridge.local.installation import HERE, Installation
from bridge.local.ports import free_ports
from bridge.local.server import Server

AppendFsync = Literal["always", "everysec"]
ALL_SLOTS = "0 16383"


class RedisNode(Server):
    """One Redis server. Ports and data stay the same over stop, kill and start.

    With `appendfsync="always"` Redis writes every change to the disk before it answers. With `cluster_enabled` the
    server is a Redis Cluster of one node that holds all hash slots. `program` may be another server with Redis'
    protocol and configuration, such as valkey-server. With `tls` the server also listens for TLS. It then asks clients
    for a certificate that the authority in `tls` has signed.
    """

    title: ClassVar[str] = "Redis"

    def __init__(
        self,
        data_dir: Path,
        port: int | None = None,
        *,
        appendfsync: AppendFsync = "always",
        cluster_enabled: bool = False,
        installation: Installation = HERE,
        program: str = "redis-server",
        tls: Certificates | None = None,
    ) -> None:
        super().__init__(data_dir, installation)
        free = free_ports(3)
        self.port = port or free[0]
        self._cluster_bus_port = free[1]
        self.tls_port = free[2]
        self._tls = tls
        self._appendfsync = appendfsync
        self._cluster_enabled = cluster_enabled
        self._program = program

    @property
    def url(self) -> str:
        """The URL for Redis clients."""
        return f"redis://127.0.0.1:{self.port}/0"

    @property
    def tls_url(self) -> str:
        """The URL for Redis clients with TLS."""
        return f"rediss://localhost:{self.tls_port}/0"

    @property
    def ports(self) -> list[int]:
        of_cluster = [self._cluster_bus_port] if self._cluster_enabled else []
        return [self.port, *of_cluster, *([self.tls_port] if self._tls is not None else [])]

    def command(self) -> list[str]:
        # In Debian the package has the program's name.
        readable = self._tls.files if self._tls else ()
        program = self.installation.command(self._program, self._program, self.data_dir, readable=readable)
        configuration = self.data_dir / "redis.conf"
        configuration.write_text(self.configuration())
        return [*program, str(configuration)]

    def environment(self) -> dict[str, str]:
        return {"PATH": os.environ["PATH"], "LANG": "C.UTF-8"}

    def configuration(self) -> str:
        """Returns the text of redis.conf."""
        lines = [
            "bind 127.0.0.1",
            f"port {self.port}",
            f'dir "{self.data_dir}"',
            'save ""',
            "appendonly yes",
            f"appendfsync {self._appendfsync}",
        ]
        if self._cluster_enabled:
            lines += ["cluster-enabled yes", f"cluster-port {self._cluster_bus_port}"]
        if self._tls is not None:
            lines += [
                f"tls-port {self.tls_port}",
                f'tls-ca-cert-file "{self._tls.ca}"',
                f'tls-cert-file "{self._tls.cert}"',
                f'tls-key-file "{self._tls.key}"',
            ]
        return "\n".join([*lines, ""])

    def is_ready(self) -> bool:
        if not self._cluster_enabled:
            return self._ask("PING").startswith("+PONG")
        info = self._ask("CLUSTER INFO")
        if "cluster_slots_assigned:0" in info:
            self._ask(f"CLUSTER ADDSLOTSRANGE {ALL_SLOTS}")
        return "cluster_state:ok" in info

    def _ask(self, command: str) -> str:
        return ask(self.port, command)


def ask(port: int, command: str) -> str:
    """Sends an inline command (plain text) to the Redis on a loopback port. Returns the first 4 KiB of the answer at
    most; empty: the server did not answer."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=2) as client:
            client.sendall(f"{command}\r\n".encode())
            return client.recv(4096).decode()
    except OSError:
        return ""
