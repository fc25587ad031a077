"""Tests what a service manager hears of a running bridge, on a real socket."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from bridge.local.ports import free_ports
from bridge.local.rabbitmq import RabbitNode
from bridge.local.redis import RedisNode
from tests.forked_bridge import PATIENT, ForkedBridge

WATCHDOG_S = 1.0


class Managed:
    """A bridge under a manager that hears it."""

    def __init__(self, folder: Path, settings: dict[str, str]) -> None:
        folder.mkdir(parents=True)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(folder / "notify"))
        given = {"NOTIFY_SOCKET": str(folder / "notify"), "WATCHDOG_USEC": str(int(WATCHDOG_S * 1_000_000))}
        self.bridge = ForkedBridge(folder / "bridge.log", free_ports(1)[0], {**settings, **given})

    def until(self, notice: str) -> list[str]:
        """What is heard up to the notice."""
        self._socket.settimeout(60)
        heard: list[str] = []
        while not heard or heard[-1] != notice:
            heard.append(self._socket.recv(4_096).decode())
        return heard

    def until_silent(self) -> None:
        """Returns when nothing was heard for the watchdog's time, as systemd does before it restarts a service."""
        self._socket.settimeout(WATCHDOG_S)
        while True:
            try:
                self._socket.recv(4_096)
            except TimeoutError:
                return

    def close(self) -> None:
        self.bridge.kill()
        self._socket.close()


@pytest.fixture(params=["1", "2"])
def managed(
    request: pytest.FixtureRequest, local_dir: Path, rabbit: RabbitNode, redis_node: RedisNode
) -> Iterator[Managed]:
    settings = {
        "BRIDGE_AMQP_URL": rabbit.amqp_url,
        "BRIDGE_REDIS_URL": redis_node.url,
        "BRIDGE_WORKERS": request.param,
        "BRIDGE_VERIFY_EVERY": "0",
        **PATIENT,
    }
    managed = Managed(local_dir / f"managed-{request.param}", settings)
    yield managed
    managed.close()


def test_manager_hears_start_life_and_stop(managed: Managed) -> None:
    bridge = managed.bridge
    bridge.launch()
    assert [heard for heard in managed.until("READY=1") if heard.startswith("STOP")] == []
    assert "WATCHDOG=1" in managed.until("STATUS=ready")
    # A process that hangs: of several, a worker.
    hanging = bridge.worker_pids[-1] if bridge.worker_pids else bridge.pid
    os.kill(hanging, signal.SIGSTOP)
    managed.until_silent()
    os.kill(hanging, signal.SIGCONT)
    managed.until("WATCHDOG=1")
    os.kill(bridge.pid, signal.SIGTERM)
    managed.until("STOPPING=1")
    assert managed.until("STATUS=stopping") == ["STATUS=stopping"]
    bridge.stop()
    assert bridge.exit_code == 0
