"""Starts a bridge process for `make run` and the benchmarks."""

from __future__ import annotations

import http.client
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from bridge.local.server import Server


class BridgeProcess(Server):
    """One `delaybridge serve`. Several may share a port: then the kernel spreads the connections over them."""

    title: ClassVar[str] = "Bridge"
    stop_timeout_seconds: ClassVar[float] = 15.0

    def __init__(self, log_file: Path, port: int, settings: Mapping[str, str], *, port_is_shared: bool = False) -> None:
        """`settings`: environment variables in addition to those of this process, such as BRIDGE_AMQP_URL."""
        super().__init__(log_file.parent)
        self.port = port
        self._log_file = log_file
        self._settings = dict(settings)
        self._port_is_shared = port_is_shared

    @property
    def url(self) -> str:
        """Address of the HTTP API."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def log_file(self) -> Path:
        return self._log_file

    @property
    def ports(self) -> list[int]:
        return [] if self._port_is_shared else [self.port]

    def command(self) -> list[str]:
        return [sys.executable, "-m", "bridge", "serve"]

    def environment(self) -> dict[str, str]:
        shared = {"BRIDGE_REUSE_PORT": "true"} if self._port_is_shared else {}
        address = {"BRIDGE_HTTP_HOST": "127.0.0.1", "BRIDGE_HTTP_PORT": str(self.port)}
        # Without compiled modules, each start compiles all of them: 1.8 s of CPU instead of 0.8 s.
        inherited = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        return {**inherited, **self._settings, **address, **shared}

    def is_ready(self) -> bool:
        client = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
        try:
            client.request("GET", "/health/ready")
            return client.getresponse().status == http.HTTPStatus.OK
        except (OSError, http.client.HTTPException):
            return False
        finally:
            client.close()
