"""Runs one bridge from the image, hardened as in docker-compose.yml: a read-only root and no capabilities."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

import httpx2

from benchmarks.log_faults import Fault, faults
from tests.tools.containers.engine import Engine, EngineError

HARDENED = (
    *("--read-only", "--read-only-tmpfs=false", "--tmpfs=/tmp:size=64m,mode=1777"),
    *("--cap-drop=ALL", "--security-opt=no-new-privileges"),
)
GRACE_S = 40
"""The time from SIGTERM to SIGKILL, as in docker-compose.yml."""


@dataclass(frozen=True)
class BridgeContainer:
    """One container of the image, on the host's network, as the private servers listen on loopback alone."""

    engine: Engine
    image: str
    name: str
    port: int

    @property
    def url(self) -> str:
        """Address of the HTTP API."""
        return f"http://127.0.0.1:{self.port}"

    def create(self, settings: Mapping[str, str], *options: str) -> None:
        """Makes the container. `settings`: environment variables of the bridge, beside its address."""
        address = {"BRIDGE_HTTP_HOST": "127.0.0.1", "BRIDGE_HTTP_PORT": str(self.port)}
        given = [f"--env={name}={value}" for name, value in {**settings, **address}.items()]
        self.engine("create", f"--name={self.name}", "--network=host", *HARDENED, *options, *given, self.image)

    def start(self) -> float:
        """Starts it, and returns the seconds until it is ready. Raises EngineError with its log if it ends before."""
        begun = time.monotonic()
        self.engine("start", self.name)
        while not self._is_ready():
            if self.state()["Status"] != "running":
                raise EngineError(f"{self.name} ended while it started:\n{self.log()}")
            time.sleep(0.05)
        return time.monotonic() - begun

    def stop(self) -> float:
        """Sends SIGTERM, and SIGKILL after the grace period. Returns the seconds until the container has ended."""
        begun = time.monotonic()
        self.engine("stop", f"--time={GRACE_S}", self.name)
        return time.monotonic() - begun

    def state(self) -> dict[str, object]:
        return dict(self.engine.inspect("container", self.name)["State"])

    def log(self) -> str:
        """What the bridge has logged."""
        return self.engine.run("podman", "logs", self.name, check=False)

    def faults(self) -> list[Fault]:
        return [*faults(self.log().splitlines())]

    def is_healthy(self) -> bool:
        """Runs the image's health check once: without systemd podman does not run it at intervals."""
        try:
            self.engine("healthcheck", "run", self.name)
        except EngineError:
            return False
        return True

    def process_status(self) -> dict[str, str]:
        """The lines of /proc/<pid>/status of the bridge's process."""
        with open(f"/proc/{self.state()['Pid']}/status", encoding="utf-8") as lines:
            return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}

    def _is_ready(self) -> bool:
        try:
            return httpx2.get(f"{self.url}/health/ready", timeout=5).status_code == httpx2.codes.OK
        except httpx2.TransportError:
            return False
