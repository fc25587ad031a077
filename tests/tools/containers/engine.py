"""Runs podman with its images, containers, networks and settings in one folder of the checkout.

It needs neither systemd nor the right to raise limits: runc starts the containers, limits are those of this process,
and images are plain folders (storage driver vfs), which need no mount and which `rm -rf` removes.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

PROJECT: Final = Path(__file__).parents[3]
FOLDER: Final = PROJECT / ".local" / "containers"
PROGRAMS: Final = {
    "podman": "podman",
    "runc": "runc",
    "/usr/lib/podman/netavark": "netavark",
    "/usr/lib/podman/aardvark-dns": "aardvark-dns",
    "iptables": "iptables",
    "mmdebstrap": "mmdebstrap",
}
"""The Debian package of each program that the tests need."""


class EngineError(Exception):
    """podman, or a program that it runs, has failed. The text has its output."""


def missing() -> str:
    """What this machine lacks for containers, and how to get it; empty if nothing."""
    if os.geteuid() != 0:
        return "containers are run as root alone"
    if packages := [package for program, package in PROGRAMS.items() if shutil.which(program) is None]:
        return f"{', '.join(packages)} missing: sh deploy/setup.sh containers"
    return ""


@dataclass(frozen=True)
class Engine:
    """podman with its own storage below `folder`."""

    folder: Path = FOLDER

    def __call__(self, *arguments: str, settings: Mapping[str, str] | None = None, timeout_s: float = 900) -> str:
        """Runs podman and returns its output, without errors. Raises EngineError if its exit code is not 0."""
        return self.run("podman", *arguments, settings=settings, timeout_s=timeout_s)

    def run(
        self, *command: str, settings: Mapping[str, str] | None = None, timeout_s: float = 900, check: bool = True
    ) -> str:
        """Runs a program that calls podman, in the project's folder, and returns its output. `settings`: more
        environment variables. Raises EngineError if the exit code is not 0, unless `check` is false; then the output
        contains the errors."""
        done = subprocess.run(
            command,
            cwd=PROJECT,
            env={**os.environ, **self.environment, **(settings or {})},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE if check else subprocess.STDOUT,
            text=True,
            timeout=timeout_s,
            check=False,
        )
        if check and done.returncode:
            raise EngineError(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
        return done.stdout.strip()

    @cached_property
    def environment(self) -> Mapping[str, str]:
        """Names podman its settings, which this writes."""
        self.folder.mkdir(parents=True, exist_ok=True)
        files = {
            "CONTAINERS_CONF": self._written("containers.conf", _settings(self.folder)),
            "CONTAINERS_STORAGE_CONF": self._written("storage.conf", _storage(self.folder)),
            "CONTAINERS_REGISTRIES_CONF": self._written(
                "registries.conf", 'unqualified-search-registries = ["docker.io"]\n'
            ),
        }
        # With one layer an instruction, vfs would copy the whole image at each. Only Docker's format has health checks.
        return {**files, "BUILDAH_ISOLATION": "chroot", "BUILDAH_LAYERS": "false", "BUILDAH_FORMAT": "docker"}

    def inspect(self, kind: str, name: str) -> dict[str, Any]:
        """What podman knows of an image, container or volume."""
        (found,) = json.loads(self(kind, "inspect", name))
        return dict(found)

    def has_image(self, name: str) -> bool:
        return name in self("images", "--format", "{{.Repository}}:{{.Tag}}").split()

    def image_mb(self, name: str) -> float:
        """The size of an image with its base, in MB of 10^6 bytes."""
        return float(self.inspect("image", name)["Size"] / 1e6)

    def clear(self) -> None:
        """Removes all containers, their volumes and networks, and images without a name, as the steps of a build have.
        Also those of a build that was killed. Other images stay, so that the next run begins with them."""
        self("rm", "--all", "--force", "--time", "5")
        self("volume", "prune", "--force")
        self("network", "prune", "--force")
        self("image", "prune", "--force", "--external")

    def _written(self, name: str, content: str) -> str:
        file = self.folder / name
        file.write_text(content)
        return str(file)


def _settings(folder: Path) -> str:
    """The text of containers.conf. podman would raise both limits, which not every root may do."""
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    # The kernel allows no more processes, and podman lowers its own limit to that.
    processes = min(resource.getrlimit(resource.RLIMIT_NPROC)[1], int(Path("/proc/sys/kernel/pid_max").read_text()))
    return f"""[containers]
cgroups = "no-conmon"
default_ulimits = ["nofile={files}:{files}", "nproc={processes}:{processes}"]
log_driver = "k8s-file"
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
pull_policy = "never"
runtime = "runc"
tmp_dir = "{folder / "tmp"}"
volume_path = "{folder / "volumes"}"
[network]
network_backend = "netavark"
network_config_dir = "{folder / "networks"}"
"""


def _storage(folder: Path) -> str:
    return f"""[storage]
driver = "vfs"
graphroot = "{folder / "storage"}"
runroot = "{folder / "run"}"
"""
