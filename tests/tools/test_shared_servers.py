"""Tests the servers that all workers of a test run share."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from bridge.local.ports import is_served
from tests.shared_servers import PROJECT, wait_until_gone

JOINS = """
import sys, time
from pathlib import Path
from tests.shared_servers import joined
with joined(Path(sys.argv[1])) as addresses:
    print(addresses.amqp_port, addresses.redis_port, flush=True)
    time.sleep(600)
"""


def worker(folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", JOINS, str(folder)], cwd=PROJECT, stdout=subprocess.PIPE, text=True)


def ports_of(process: subprocess.Popen[str]) -> list[int]:
    assert process.stdout is not None
    return [int(port) for port in process.stdout.readline().split()]


def test_workers_share_servers_that_end_with_the_last_of_them_even_when_it_is_killed(tmp_path: Path) -> None:
    folder = tmp_path / "servers"
    with worker(folder) as first, worker(folder) as second:
        try:
            ports = ports_of(first)
            assert ports_of(second) == ports
            first.kill()
            first.wait()
            assert [is_served(port) for port in ports] == [True, True]
        finally:
            first.kill()
            second.kill()
    wait_until_gone(folder)
    assert [is_served(port) for port in ports] == [False, False]
    assert not folder.exists()
