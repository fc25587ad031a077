"""Chooses the servers for tests: this machine's, or those of other releases, from folders outside the checkout."""

from __future__ import annotations

import os
import platform
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final, Self

from bridge.local import LocalError, RabbitNode, RedisNode
from bridge.local.certificates import Certificates
from bridge.local.installation import HERE, Installation
from bridge.local.rabbitmq import ADVANCED_CONFIGURATION
from bridge.local.redis import AppendFsync
from tests.matrix.lean import LeanInstallation

RABBITMQ: Final = MappingProxyType({"3.10": "bookworm", "4.0": "trixie", "4.3": "forky"})
"""The Debian release that has the version."""

REDIS: Final = MappingProxyType(
    {"redis-7.0": "bookworm", "redis-8.0": "trixie", "valkey-8.1": "trixie", "valkey-9.1": "forky"}
)

FEW_TICKS: Final = (
    ADVANCED_CONFIGURATION.removesuffix("]}].\n")
    + ", {quorum_tick_interval, 60000}, {collect_statistics_interval, 60000}]}].\n"
)
"""The text of advanced.config for nodes whose queues look after themselves once a minute, not every 5 s, and whose
management plugin collects its figures as rarely. Hundreds of idle queues would take a part of a core. `list_queues` and
the management API then show counts of up to a minute ago."""

FOR_A_RUN: Final = (
    FEW_TICKS.removesuffix("]}].\n")
    + ", {file_handles_high_watermark, 1000000}]}, {ra, [{wal_max_size_bytes, 4294967296}]}].\n"
)
"""The same for a node that has the queues of a whole run. When the log of all quorum queues is full, RabbitMQ writes a
segment of each queue, also of queues that were deleted since. On busy cores, all queues stood still for 10 s. Before
4.0 each quorum queue reserves three file handles, open or not: beyond the limit no connection is accepted."""


@dataclass(frozen=True, kw_only=True)
class Servers:
    """A combination of servers. `rabbitmq` is a key of RABBITMQ, `redis` one of REDIS; None means the version of this
    machine."""

    rabbitmq: str | None = None
    redis: str | None = None

    def __post_init__(self) -> None:
        for asked, known in ((self.rabbitmq, RABBITMQ), (self.redis, REDIS)):
            if asked is not None and asked not in known:
                raise LocalError(f"{asked!r} is unknown; known versions are {', '.join(known)}")

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Self:
        """Reads BRIDGE_TEST_RABBITMQ and BRIDGE_TEST_REDIS_SERVER. Raises LocalError if one names an unknown
        version."""
        return cls(
            rabbitmq=environment.get("BRIDGE_TEST_RABBITMQ") or None,
            redis=environment.get("BRIDGE_TEST_REDIS_SERVER") or None,
        )

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables that `from_environment` reads."""
        return {"BRIDGE_TEST_RABBITMQ": self.rabbitmq or "", "BRIDGE_TEST_REDIS_SERVER": self.redis or ""}

    @property
    def folders(self) -> dict[str, Path]:
        """The folders of unpacked servers, by Debian release. They are outside the checkout, so that clones share them.

        This machine's own release has no folder: its installed servers are used.
        """
        suites = {RABBITMQ[self.rabbitmq]} if self.rabbitmq else set()
        suites |= {REDIS[self.redis]} if self.redis else set()
        return {suite: folder for suite in sorted(suites) if (folder := _folder(suite)) is not None}

    @property
    def rabbitmq_installation(self) -> Installation:
        return _installation(RABBITMQ[self.rabbitmq]) if self.rabbitmq else LeanInstallation()

    @property
    def redis_installation(self) -> Installation:
        return _installation(REDIS[self.redis]) if self.redis else HERE

    @property
    def redis_program(self) -> str:
        return f"{self.redis.partition('-')[0]}-server" if self.redis else "redis-server"

    def rabbit_node(
        self, data_dir: Path, *, tls: Certificates | None = None, advanced: str = ADVANCED_CONFIGURATION
    ) -> RabbitNode:
        installation = self.rabbitmq_installation
        return RabbitNode(data_dir, installation=installation, tls=tls, one_thread=True, advanced=advanced)

    def redis_node(
        self,
        data_dir: Path,
        *,
        appendfsync: AppendFsync = "always",
        cluster_enabled: bool = False,
        tls: Certificates | None = None,
    ) -> RedisNode:
        return RedisNode(
            data_dir,
            appendfsync=appendfsync,
            cluster_enabled=cluster_enabled,
            installation=self.redis_installation,
            program=self.redis_program,
            tls=tls,
        )

    def versions(self) -> tuple[str, str]:
        """Returns the versions of RabbitMQ and Redis. Raises LocalError if one is missing or has another version than
        asked for."""
        rabbitmq, redis = self._rabbitmq_version(), self._redis_version()
        for asked, found in ((self.rabbitmq, rabbitmq), (self.redis, redis)):
            if asked is not None and not found.startswith(f"{asked}."):
                raise LocalError(f"{asked} was asked for, but its Debian release has {found} now")
        return rabbitmq, redis

    def _rabbitmq_version(self) -> str:
        lib = (self.rabbitmq_installation.folder or Path("/")) / "usr/lib/rabbitmq/lib"
        found = [path.name.partition("-")[2] for path in lib.glob("rabbitmq_server-*")]
        if not found:
            raise LocalError(f"There is no RabbitMQ in {lib}")
        return found[0]

    def _redis_version(self) -> str:
        with tempfile.TemporaryDirectory() as folder:
            command = self.redis_installation.command(self.redis_program, self.redis_program, Path(folder))
            said = subprocess.run([*command, "--version"], capture_output=True, text=True, check=True).stdout
        version = next(word.removeprefix("v=") for word in said.split() if word.startswith("v="))
        return f"{self.redis_program.removesuffix('-server')}-{version}"


def _folder(suite: str) -> Path | None:
    if platform.freedesktop_os_release().get("VERSION_CODENAME") == suite:
        return None
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache, "delaybridge", suite)


def _installation(suite: str) -> Installation:
    folder = _folder(suite)
    if folder is None:
        return HERE
    if not folder.is_dir():
        raise LocalError(f"{folder} does not exist yet. To unpack it: sh deploy/unpack-servers.sh {suite} {folder}")
    return Installation(folder)
