"""Tests that the parent of this worker's bridges answers whatever its threads ask, and in whatever order."""

from __future__ import annotations

import os
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from bridge.local.ports import free_ports
from tests.forked_bridge import ForkedBridge


def test_two_threads_that_ask_at_once_get_the_same_exit_code(tmp_path: Path) -> None:
    with ThreadPoolExecutor(max_workers=2) as threads:
        for number in range(20):
            bridge = ForkedBridge(tmp_path / f"{number}.log", free_ports(1)[0], {})
            bridge.launch()
            os.kill(bridge.pid, signal.SIGKILL)

            def ended(bridge: ForkedBridge = bridge) -> int:
                while (code := bridge.exit_code) is None:
                    pass
                return code

            both = [threads.submit(ended) for _ in range(2)]
            assert [one.result() for one in both] == [-signal.SIGKILL] * 2
