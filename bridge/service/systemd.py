"""Reports to systemd whether this process is ready, alive or stopping, by the protocol of sd_notify(3).

Only a process with the variable NOTIFY_SOCKET reports. A watchdog restarts a service that no longer sends WATCHDOG=1.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final, NoReturn, Self

from bridge.model import background
from bridge.model.part_state import OK
from bridge.service.health.supervisor import Status, retrying

if TYPE_CHECKING:
    from bridge.service.pools.pools import Pools

_LONGEST_STATUS: Final = 500  # characters
_NO_WATCHDOG_S: Final = 30.0
_READY_EVERY_S: Final = 10.0
_UNREADY_EVERY_S: Final = 1.0


class Notices:
    """Sends the notices of one process to systemd. `watchdog_s`: if systemd watches the service, systemd restarts the
    service after this many seconds without WATCHDOG=1."""

    def __init__(self, send: Callable[[bytes], object], watchdog_s: float) -> None:
        self.watchdog_s = watchdog_s
        self._send = send
        self._status = ""
        self._owes_ready = False

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Self | None:
        """Returns the notices of this process, which go to the service manager that started it. None: no service
        manager has asked for notices."""
        address = environment.get("NOTIFY_SOCKET")
        if not address:
            return None
        where = f"\0{address[1:]}" if address.startswith("@") else address
        watched = environment.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        watchdog_us = int(environment.get("WATCHDOG_USEC", 0)) if watched else 0
        return cls(partial(_send, where), watchdog_us / 1_000_000 or _NO_WATCHDOG_S)

    def ready(self) -> None:
        self._owes_ready = not self._tell("READY=1")

    def alive(self) -> None:
        if self._owes_ready:
            self.ready()
        self._tell("WATCHDOG=1")

    def stopping(self) -> None:
        self._tell("STOPPING=1")
        self.status("stopping")

    def status(self, text: str) -> None:
        """Sends one line for `systemctl status`, if the text has changed."""
        text = " ".join(text.split())[:_LONGEST_STATUS]
        if text != self._status:
            self._status = text
            self._tell(f"STATUS={text}")

    def _tell(self, notice: str) -> bool:
        try:
            self._send(notice.encode())
        except OSError:  # a manager that is busy or gone is no reason to wait or to stop
            return False
        return True


class Reporter:
    """Reports the state of one process to systemd, from the process's first answer to its end.

    A process is alive while its event loop turns and the task of every loop runs. A server that is away does not make
    the process dead: a restart would not help, and the status names the server.
    """

    def __init__(self, pools: Pools, notices: Notices) -> None:
        self._pools = pools
        self._notices = notices
        self._stopping = False
        self._tasks: list[asyncio.Task[None]] = []
        self.status = Status("systemd", state=OK)

    def start(self) -> None:
        self._notices.ready()
        self._tasks = [
            background.begin(self._beat(), "tell systemd"),
            asyncio.create_task(self.run(), name=self.status.name),
        ]

    def stopping(self) -> None:
        """Reports the stop. From now on, loops may end."""
        self._stopping = True
        for describing in self._tasks[1:]:
            describing.cancel()
        self._notices.stopping()

    def end(self) -> None:
        for task in self._tasks:
            task.cancel()

    async def run(self) -> NoReturn:
        """Reports the health of the process as the service's status, for ever."""
        await retrying(self.status, self._describe)

    async def _describe(self) -> float:
        health = await self._pools.own_health()
        faults = [f"{part}: {state}" for part, state in health.parts.items() if state != "ok"]
        faults += [finding.says for finding in health.findings]
        self._notices.status("; ".join(faults) or "ready")
        return _UNREADY_EVERY_S if faults else _READY_EVERY_S

    async def _beat(self) -> None:
        while True:
            if self._stopping or self._pools.alive:
                self._notices.alive()
            await asyncio.sleep(self._notices.watchdog_s / 4)


def _send(address: str, notice: bytes) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as manager:
        manager.sendto(notice, address)
