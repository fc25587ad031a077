"""Tests the ports for servers that are started later, killed, and started again."""

from __future__ import annotations

import json
import random
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from bridge.local.ports import free_ports, kept_ports

DRAWS = "import random; random.seed(1); from bridge.local.ports import free_ports; print(*free_ports(20))"


def test_no_two_processes_are_given_the_same_port() -> None:
    random.seed(1)
    ours = free_ports(20)
    random.seed()

    theirs = subprocess.run([sys.executable, "-c", DRAWS], check=True, capture_output=True, text=True).stdout.split()

    assert len(set(ours)) == len(theirs) == 20
    assert set(ours).isdisjoint(map(int, theirs))


KEEPS = """
import sys
from pathlib import Path
from bridge.local.ports import kept_ports
print(*kept_ports(Path(sys.argv[1]), sys.argv[2:]).values())
"""


def kept(file: Path, *names: str) -> list[int]:
    """The ports that another process gets."""
    command = [sys.executable, "-c", KEEPS, str(file), *names]
    return [int(port) for port in subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()]


def test_ports_are_the_same_at_the_next_start(tmp_path: Path) -> None:
    first = kept(tmp_path / "new" / "ports.json", "amqp", "redis")
    assert len(set(first)) == 2
    assert kept(tmp_path / "new" / "ports.json", "amqp", "redis") == first


def test_port_that_another_program_has_taken_is_replaced_alone(tmp_path: Path) -> None:
    amqp, redis = kept(tmp_path / "ports.json", "amqp", "redis")
    with socket.create_server(("127.0.0.1", amqp)):
        other, same = kept(tmp_path / "ports.json", "amqp", "redis")
    assert (other != amqp, same) == (True, redis)


@pytest.mark.parametrize("content", ["", "{", "[]", "1", '{"amqp": "x"}', '{"amqp": 80}', '{"amqp": 99999}'])
def test_unusable_file_of_ports_is_replaced(tmp_path: Path, content: str) -> None:
    file = tmp_path / "ports.json"
    file.write_text(content)
    ports = kept_ports(file, ("amqp",))
    assert json.loads(file.read_text()) == ports
    assert 10_000 <= ports["amqp"] < 65_536
