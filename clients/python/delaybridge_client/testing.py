"""Provides pytest fixtures: a bridge with its own RabbitMQ and Redis on this machine, and a topic for each test.

pytest loads the fixtures automatically if this package is installed. If `DELAYBRIDGE_TEST_URL` names a running bridge,
they use that bridge and start none.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from uuid import uuid4

import pytest

_START_S: Final = 120.0
_STOP_S: Final = 30.0
_POLL_S: Final = 0.1
_RABBITMQ: Final = ("/usr/lib/rabbitmq/bin/rabbitmq-server", "rabbitmq-server")


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalBridge:
    """A bridge for tests. `amqp_url`: the URL of its RabbitMQ; None for a bridge that `DELAYBRIDGE_TEST_URL` names."""

    url: str
    amqp_url: str | None


@pytest.fixture(scope="session")
def delaybridge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalBridge]:
    """A bridge that only this test session uses. It starts in some seconds, and is stopped at the end.

    The test is skipped if the package `delaybridge`, RabbitMQ or Redis is missing.
    """
    url = os.environ.get("DELAYBRIDGE_TEST_URL")
    if url:
        yield LocalBridge(url=url.rstrip("/"), amqp_url=None)
        return
    missing = _missing()
    if missing:
        pytest.skip(f"the fixture delaybridge needs {missing}; or set DELAYBRIDGE_TEST_URL to a running bridge")
    with _running(tmp_path_factory.mktemp("delaybridge")) as bridge:
        yield bridge


@pytest.fixture
def delaybridge_topic() -> str:
    """The name of a topic that no other test uses."""
    return f"test-{uuid4().hex[:16]}"


def _missing() -> str:
    """Returns what a local bridge needs and this machine lacks, as a text; empty if it lacks nothing."""
    if _program() is None:
        return "the server: pip install delaybridge"
    own_servers = os.environ.get("BRIDGE_AMQP_URL") and os.environ.get("BRIDGE_REDIS_URL")
    if own_servers or (any(map(shutil.which, _RABBITMQ)) and shutil.which("redis-server")):
        return ""
    return "the programs of RabbitMQ and Redis: apt install rabbitmq-server redis-server"


def _program() -> str | None:
    """Returns the path of the program `delaybridge`: beside this Python, or else in PATH. None: it is missing."""
    return shutil.which("delaybridge", path=str(Path(sys.executable).parent)) or shutil.which("delaybridge")


@contextmanager
def _running(folder: Path) -> Iterator[LocalBridge]:
    log_file = folder / "delaybridge-dev.log"
    with log_file.open("wb") as log:
        stack = subprocess.Popen(
            [str(_program()), "dev"],
            env={**os.environ, "BRIDGE_LOCAL_DIR": str(folder / "local"), "BRIDGE_HTTP_PORT": "0"},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,  # Ctrl-C reaches only pytest, which then stops this process
        )
    try:
        yield _started(stack, folder / "local" / "run.json", log_file)
    finally:
        stack.send_signal(signal.SIGINT)
        try:
            stack.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            os.killpg(stack.pid, signal.SIGKILL)
            stack.wait()


def _started(stack: subprocess.Popen[bytes], run_file: Path, log_file: Path) -> LocalBridge:
    give_up_at = time.monotonic() + _START_S
    while not run_file.exists():
        if stack.poll() is not None or time.monotonic() > give_up_at:
            pytest.fail(f"`delaybridge dev` did not start:\n{log_file.read_text(errors='replace')}", pytrace=False)
        time.sleep(_POLL_S)
    running = json.loads(run_file.read_text())
    return LocalBridge(url=running["http"], amqp_url=running["amqp"])
