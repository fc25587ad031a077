"""Finds the servers of a running `make run` by its run file."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from bridge.local.rabbitmq import PASSWORD, USER


@dataclass(frozen=True, kw_only=True, slots=True)
class RunningServers:
    """The servers of a running stack. `management_url` None: the stack did not start RabbitMQ itself."""

    http_url: str
    amqp_url: str
    redis_url: str
    management_url: str | None


def data_dir(environment: Mapping[str, str] = os.environ) -> Path:
    """The folder of the stack: BRIDGE_LOCAL_DIR, or `.local`."""
    return Path(environment.get("BRIDGE_LOCAL_DIR") or ".local")


def running_servers(folder: Path) -> RunningServers | None:
    """Returns the servers of the stack that runs in `folder`. None: no stack has run there, its bridge has ended, or
    its run file can't be read."""
    try:
        content = json.loads((folder / "run.json").read_text())
        if not any(Path(f"/proc/{pid}").exists() for pid in content["pids"]["bridge"]):
            return None
        management = content["management"]
        return RunningServers(
            http_url=content["http"],
            amqp_url=content["amqp"],
            redis_url=content["redis"],
            management_url=management and management.replace("://", f"://{USER}:{PASSWORD}@"),
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None
