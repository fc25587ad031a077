"""Runs the Erlang port mapper, by which the nodes of one machine find each other."""

from __future__ import annotations

import os
from pathlib import Path
from typing import ClassVar

from bridge.local.installation import HERE, Installation
from bridge.local.ports import free_ports, is_served
from bridge.local.server import Server


class Epmd(Server):
    """Erlang's port mapper (epmd) as a server in the foreground, on a port that no other port mapper uses.

    Without it, Erlang would start a port mapper as a daemon that outlives this process, on a port that all Erlang
    programs of the machine share.
    """

    title: ClassVar[str] = "epmd"

    def __init__(self, data_dir: Path, port: int | None = None, *, installation: Installation = HERE) -> None:
        super().__init__(data_dir, installation)
        self.port = port or free_ports(1)[0]

    @property
    def ports(self) -> list[int]:
        return [self.port]

    def command(self) -> list[str]:
        program = self.installation.command("epmd", "erlang-base", self.data_dir)
        return [*program, "-port", str(self.port), "-address", "127.0.0.1"]

    def environment(self) -> dict[str, str]:
        return {"PATH": os.environ["PATH"]}

    def is_ready(self) -> bool:
        return is_served(self.port)
