"""Starts a door for tests and the benchmarks."""

from __future__ import annotations

import http.client
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from bridge.local.ports import free_ports
from bridge.local.server import Server


class DoorProcess(Server):
    """One `delaybridge door` on loopback. `settings`: environment variables in addition to those of this process."""

    title: ClassVar[str] = "Door"
    stop_timeout_seconds: ClassVar[float] = 15.0

    def __init__(self, data_dir: Path, settings: Mapping[str, str]) -> None:
        super().__init__(data_dir)
        self.port, self.status_port = free_ports(2)
        self._settings = dict(settings)

    def at(self, amqp_url: str) -> str:
        """Returns the URL of RabbitMQ with the door's host and port in place of RabbitMQ's."""
        start, at, rest = amqp_url.partition("@")
        _, slash, vhost = rest.partition("/")
        return f"{start}{at}127.0.0.1:{self.port}{slash}{vhost}"

    @property
    def ports(self) -> list[int]:
        return [self.port, self.status_port]

    def command(self) -> list[str]:
        return [sys.executable, "-m", "bridge", "door"]

    def environment(self) -> dict[str, str]:
        ports = {"BRIDGE_DOOR_PORT": str(self.port), "BRIDGE_DOOR_STATUS_PORT": str(self.status_port)}
        inherited = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        return {**inherited, **self._settings, **ports}

    def is_ready(self) -> bool:
        return self.ask("/health/ready")[0] == http.HTTPStatus.OK

    def ask(self, path: str) -> tuple[int, str]:
        """Asks the door's status port. Returns the status and the text of its answer; 0 and an empty text if it does
        not answer."""
        client = http.client.HTTPConnection("127.0.0.1", self.status_port, timeout=5)
        try:
            client.request("GET", path)
            answer = client.getresponse()
            return answer.status, answer.read().decode()
        except (OSError, http.client.HTTPException):
            return 0, ""
        finally:
            client.close()
