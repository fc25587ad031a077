"""Tests the ports for servers that are started later, killed, and started again."""

from __future__ import annotations

import random
import subprocess
import sys

from bridge.local.ports import free_ports

DRAWS = "import random; random.seed(1); from bridge.local.ports import free_ports; print(*free_ports(20))"


def test_no_two_processes_are_given_the_same_port() -> None:
    random.seed(1)
    ours = free_ports(20)
    random.seed()

    theirs = subprocess.run([sys.executable, "-c", DRAWS], check=True, capture_output=True, text=True).stdout.split()

    assert len(set(ours)) == len(theirs) == 20
    assert set(ours).isdisjoint(map(int, theirs))
