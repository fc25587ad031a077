"""Tests that a bridge runs as in its container: not as root, on a root that it can't write, with secrets as files."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from pathlib import Path
from uuid import uuid4

import httpx2
import pytest
import yaml

from bridge.local.bridge import BridgeProcess
from bridge.local.ports import free_ports
from bridge.local.redis import RedisNode
from tests.forked_bridge import PATIENT
from tests.integration.topic import Topic
from tests.shared_servers import SharedRabbit
from tests.tools.manifests.rendered import BASE

USER = "10001"


# A checkout below /tmp has to stay visible, so /tmp is not emptied.
SANDBOX = ["bwrap", "--die-with-parent", "--ro-bind", "/", "/", "--dev", "/dev"]
SANDBOX += ["--unshare-user", "--uid", USER, "--gid", USER, "--cap-drop", "ALL"]


def sandbox_works() -> bool:
    return shutil.which("bwrap") is not None and subprocess.run([*SANDBOX, "true"], check=False).returncode == 0


class Contained(BridgeProcess):
    """A bridge in bubblewrap, with the ids of the image's user. It can write nothing at all."""

    def command(self) -> list[str]:
        return [*SANDBOX, *super().command()]

    @property
    def pid(self) -> int:
        # bubblewrap stays its parent, and would not pass SIGTERM on.
        (pid,) = Path(f"/proc/{super().pid}/task/{super().pid}/children").read_text().split()
        return int(pid)


def mounted(folder: Path, **secrets: str) -> Path:
    """Writes files as Kubernetes mounts a Secret: links to a folder that is replaced as a whole."""
    data = folder / "..2026_11_24"
    data.mkdir(parents=True)
    (folder / "..data").symlink_to(data.name)
    for name, value in secrets.items():
        (data / name).write_text(value)
        (folder / name).symlink_to(f"..data/{name}")
    return folder


@pytest.fixture
def secrets(rabbit: SharedRabbit, redis_node: RedisNode, tmp_path: Path) -> Path:
    """The folder of the secret settings. Without bubblewrap the test is skipped."""
    if not sandbox_works():
        pytest.skip("bwrap is missing or not allowed, so a bridge could write: apt-get install bubblewrap")
    return mounted(
        tmp_path / "secrets",
        bridge_amqp_url=rabbit.amqp_url,
        bridge_redis_url=redis_node.url,
        bridge_management_url=rabbit.management_url,
    )


async def test_bridge_needs_no_root_and_writes_no_file(secrets: Path, tmp_path: Path) -> None:
    settings = {
        "BRIDGE_SECRETS_DIR": str(secrets),
        "BRIDGE_REDIS_PREFIX": f"contained-{uuid4().hex[:12]}",
        "BRIDGE_ACCESS": "open",
        "BRIDGE_WORKERS": "2",
        "BRIDGE_LEASE_COPY_AFTER": "0",
        **PATIENT,
    }
    bridge = Contained(tmp_path / "bridge.log", free_ports(1)[0], settings)
    try:
        await asyncio.to_thread(bridge.start)
        async with httpx2.AsyncClient(base_url=bridge.url, timeout=30) as client:
            topic = Topic(client, "contained")
            sent = await topic.send("x" * 900_000, delay="100ms")
            pulled = await topic.pull_one()
            assert (pulled["id"], len(pulled["body"])) == (sent["id"], 900_000)
            await topic.ack(pulled)
            assert (await client.get("/metrics")).status_code == 200
        bridge.ask_to_stop()
        await asyncio.to_thread(bridge.wait_until_stopped)
    finally:
        await asyncio.to_thread(bridge.kill)
    assert "service.stopped" in bridge.log_file.read_text()
    assert "Traceback" not in bridge.log_file.read_text()


def test_job_declares_from_the_same_root(secrets: Path) -> None:
    job = yaml.safe_load((BASE / "declare" / "job.yaml").read_text())
    _, *arguments = job["spec"]["template"]["spec"]["containers"][0]["args"]
    done = subprocess.run(
        [*SANDBOX, sys.executable, "-m", "bridge", *arguments],
        env={**os.environ, "BRIDGE_SECRETS_DIR": str(secrets)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "184 queues" in done.stdout
