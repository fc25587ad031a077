"""Runs Docker Compose with podman as its engine, and the health checks, which podman leaves to systemd."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from tests.tools.containers.engine import Engine, EngineError

PROJECT_NAME: Final = "delaybridge-tested"
_BETWEEN_CHECKS_S: Final = 1.0


@dataclass(frozen=True)
class Compose:
    """`docker compose` on docker-compose.yml, unchanged, and on files that override it."""

    engine: Engine
    program: Path
    address: Path
    files: tuple[str, ...] = ("docker-compose.yml",)
    settings: dict[str, str] = field(default_factory=dict)
    """Variables that docker-compose.yml reads, such as BRIDGE_RABBITMQ_PASSWORD."""

    def __call__(self, *arguments: str) -> str:
        """Runs a command of Compose and returns its output, with what it tells of its progress."""
        told = {
            "DOCKER_HOST": f"unix://{self.address}",
            "DOCKER_BUILDKIT": "0",  # podman builds images by the older of Docker's two ways
            "COMPOSE_PROJECT_NAME": PROJECT_NAME,
            "COMPOSE_FILE": os.pathsep.join(self.files),
            **self.settings,
        }
        return self.engine.run(str(self.program), *arguments, settings=told)

    def beside(self, file: str) -> Compose:
        """The same project with another file that overrides the earlier ones."""
        return replace(self, files=(*self.files, file))

    def up(self, *services: str, profile: str = "", build: bool = False) -> float:
        """Starts services, by default all of no profile. Returns the seconds until they run. The services that they
        depend on are healthy then. `build`: makes the bridge's image before."""
        begun = time.monotonic()
        profiles = [f"--profile={profile}"] if profile else []
        self(*profiles, "up", "--detach", "--build" if build else "--no-build", "--pull=never", *services)
        return time.monotonic() - begun

    def down(self) -> float:
        """Removes all containers and networks, and keeps the volumes. Returns the seconds."""
        begun = time.monotonic()
        self("--profile=*", "down", "--remove-orphans")
        return time.monotonic() - begun

    def log(self, service: str) -> str:
        return self.engine.run("podman", "logs", self.container(service), check=False)

    def is_healthy(self, service: str) -> bool:
        """Whether the last health check of a service's container passed."""
        return bool(self.engine.inspect("container", self.container(service))["State"]["Health"]["Status"] == "healthy")

    def execute(self, service: str, *command: str) -> str:
        """Runs a program in the container of a service, and returns its output."""
        return self.engine("exec", self.container(service), *command)

    @staticmethod
    def container(service: str) -> str:
        return f"{PROJECT_NAME}-{service}-1"


@contextmanager
def running(engine: Engine, program: Path) -> Iterator[Compose]:
    """Runs podman's API and the health checks meanwhile."""
    address = engine.folder / "api.sock"
    address.unlink(missing_ok=True)
    ended = threading.Event()
    checks = threading.Thread(target=_check_health, args=(engine, ended))
    with (
        (engine.folder / "api.log").open("w") as log,
        subprocess.Popen(
            ["podman", "system", "service", "--time=0", f"unix://{address}"],
            env={**os.environ, **engine.environment},
            stdout=log,
            stderr=log,
        ) as service,
    ):
        try:
            _wait_for(address)
            checks.start()
            yield Compose(engine, program, address)
        finally:
            ended.set()
            if checks.ident is not None:
                checks.join()
            service.send_signal(signal.SIGTERM)


def _wait_for(address: Path) -> None:
    give_up_at = time.monotonic() + 60
    while True:
        with socket.socket(socket.AF_UNIX) as probe:
            try:
                probe.connect(str(address))
            except OSError:
                if time.monotonic() > give_up_at:
                    raise
            else:
                return
        time.sleep(0.05)


def _check_health(engine: Engine, ended: threading.Event) -> None:
    """Runs the health check of each container, again and again: docker-compose.yml waits for healthy servers."""
    while not ended.wait(_BETWEEN_CHECKS_S):
        try:
            containers = engine("ps", "--quiet").split()
        except EngineError:
            continue  # a container was removed meanwhile
        for container in containers:
            engine.run("podman", "healthcheck", "run", container, check=False)
