"""Tests what systemd hears of a process and of its workers, on real sockets."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from bridge.cli.joined_notices import JoinedNotices
from bridge.model.part_state import OK
from bridge.service.health.supervisor import Status
from bridge.service.service import Service
from bridge.service.systemd import Notices
from bridge.settings.settings import Settings


class Manager:
    """A service manager that keeps what it hears."""

    def __init__(self, address: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        self._socket.bind(address)

    def heard(self) -> list[str]:
        notices = []
        while True:
            try:
                notices.append(self._socket.recv(4_096).decode())
            except BlockingIOError:
                return notices

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def manager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Manager]:
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
    manager = Manager(str(tmp_path / "notify"))
    yield manager
    manager.close()


def notices(**environment: str) -> Notices:
    found = Notices.from_environment({**os.environ, **environment})
    assert found is not None
    return found


def test_notices_follow_the_protocol(manager: Manager) -> None:
    one = notices()
    one.ready()
    one.status("a\nREADY=1 b")
    one.status("a READY=1   b")
    one.alive()
    one.stopping()
    assert manager.heard() == ["READY=1", "STATUS=a READY=1 b", "WATCHDOG=1", "STOPPING=1", "STATUS=stopping"]
    one.status("x" * 10_000)
    assert [len(notice) for notice in manager.heard()] == [507]


def test_without_a_socket_there_are_no_notices() -> None:
    assert Notices.from_environment({"WATCHDOG_USEC": "1"}) is None


def test_watchdog_of_another_process_does_not_count(manager: Manager) -> None:
    pids = {"its own": str(os.getpid()), "another's": "1"}
    limits = {whose: notices(WATCHDOG_USEC="3000000", WATCHDOG_PID=pid).watchdog_s for whose, pid in pids.items()}
    assert (limits, notices(WATCHDOG_USEC="3000000").watchdog_s) == ({"its own": 3, "another's": 30}, 3)


def test_start_that_the_manager_missed_is_sent_again() -> None:
    address = f"delaybridge-test-{os.getpid()}"
    one = notices(NOTIFY_SOCKET=f"@{address}")
    one.ready()
    manager = Manager(f"\0{address}")
    one.alive()
    one.alive()
    assert manager.heard() == ["READY=1", "WATCHDOG=1", "WATCHDOG=1"]
    manager.close()
    one.alive()  # raises nothing


@pytest.fixture
def joined(manager: Manager) -> Iterator[JoinedNotices]:
    joined = JoinedNotices(["api-1", "checkpoint-1"], notices(WATCHDOG_USEC="80000"), start_s=30.0)
    yield joined
    joined.close()


def test_service_is_ready_when_all_workers_are(manager: Manager, joined: JoinedNotices) -> None:
    joined.started(0)
    joined.started(1)
    one, two = joined.of(0), joined.of(1)
    one.ready()
    joined.join()
    assert manager.heard() == ["WATCHDOG=1", "STATUS=api-1: starting; checkpoint-1: starting"]
    two.ready()
    one.status("ready")
    two.status("broker: away")
    joined.join()
    assert [one for one in manager.heard() if one != "WATCHDOG=1"] == ["READY=1", "STATUS=checkpoint-1: broker: away"]


async def test_silent_worker_ends_the_beat_until_it_is_started_again(manager: Manager, joined: JoinedNotices) -> None:
    one, two = joined.of(0), joined.of(1)
    one.ready()
    two.ready()
    heard = ["WATCHDOG=1"]
    while "WATCHDOG=1" in heard:  # the second worker is silent
        await asyncio.sleep(0.05)
        one.alive()
        joined.join()
        heard = manager.heard()
    joined.started(1)
    one.alive()
    joined.join()
    assert manager.heard() == ["WATCHDOG=1"]
    joined.stopping()
    await asyncio.sleep(0.05)
    joined.join()
    assert manager.heard() == ["STOPPING=1", "STATUS=stopping", "WATCHDOG=1"]


class _Endless:
    status = Status("endless", state=OK)

    async def run(self) -> None:
        await asyncio.get_running_loop().create_future()


async def test_service_lives_while_every_loop_runs() -> None:
    service = Service(Settings(amqp_url="amqp://127.0.0.1:1/", redis_url="redis://127.0.0.1:1/0"))
    service.add(_Endless())
    assert service.alive
    await service.start()
    (loop,) = [task for task in asyncio.all_tasks() if task.get_name() == "endless"]
    assert service.alive
    loop.cancel()
    await asyncio.wait([loop])
    assert not service.alive
    await service.stop()
