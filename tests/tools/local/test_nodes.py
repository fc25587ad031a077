"""Tests that local servers keep their data and addresses, however they are stopped."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import get_args

import aio_pika
import pytest
from redis.asyncio import Redis, RedisCluster

from bridge.local import LocalError, RabbitCluster, RabbitNode, RedisNode
from bridge.local.installation import Installation
from bridge.local.redis import AppendFsync
from tests.matrix.servers import Servers


@pytest.fixture(scope="module")
def node(local_dir: Path, servers: Servers) -> Iterator[RabbitNode]:
    """A node for this file only, since its tests kill it."""
    node = servers.rabbit_node(local_dir / "own-rabbitmq")
    node.start()
    yield node
    node.kill()


async def leave_message(amqp_url: str, queue_name: str) -> None:
    async with await aio_pika.connect(amqp_url) as connection:
        channel = await connection.channel()
        queue = await channel.declare_queue(queue_name, durable=True, arguments={"x-queue-type": "quorum"})
        message = aio_pika.Message(b"kept", delivery_mode=aio_pika.DeliveryMode.PERSISTENT)
        await channel.default_exchange.publish(message, routing_key=queue.name)


async def find_message(amqp_url: str, queue_name: str) -> bytes:
    async with await aio_pika.connect(amqp_url) as connection:
        channel = await connection.channel()
        queue = await channel.declare_queue(queue_name, passive=True)
        return (await queue.get(no_ack=True, timeout=10)).body


async def test_a_durable_queue_outlives_a_killed_rabbitmq(node: RabbitNode) -> None:
    url, pid = node.amqp_url, node.pid
    assert url.endswith(f"@127.0.0.1:{node.port}")  # a `/` would be an empty virtual host for Java's client
    await leave_message(url, "kept")
    node.sync()
    node.kill()
    assert not node.running
    node.start()
    assert node.amqp_url == url
    assert node.pid != pid
    assert await find_message(url, "kept") == b"kept"


async def test_a_frozen_rabbitmq_answers_nobody_until_it_is_thawed(node: RabbitNode) -> None:
    node.freeze()
    assert node.running
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(aio_pika.connect(node.amqp_url), timeout=0.5)
    node.thaw()
    connection = await asyncio.wait_for(aio_pika.connect(node.amqp_url), timeout=10)
    await connection.close()


def test_rabbitmqctl_reaches_the_node(node: RabbitNode) -> None:
    assert "rabbitmq_management" in node.ctl("eval", "rabbit_plugins:active().")
    with pytest.raises(LocalError, match="no_such_command"):
        node.ctl("no_such_command")


def test_an_expression_is_evaluated_in_the_node(node: RabbitNode) -> None:
    assert node.evaluate("Sum = 1 + 2, {Sum, node()}") == f"{{3, {node.node_name}}}"
    with pytest.raises(LocalError, match="badarith"):
        node.evaluate("1 + a")


def test_rabbitmqctl_refuses_a_node_that_is_not_running(local_dir: Path) -> None:
    with pytest.raises(LocalError, match="not running"):
        RabbitNode(local_dir / "never").ctl("status")


@pytest.mark.parametrize("appendfsync", get_args(AppendFsync))
async def test_a_key_outlives_a_killed_redis(local_dir: Path, servers: Servers, appendfsync: AppendFsync) -> None:
    with servers.redis_node(local_dir / f"own-redis-{appendfsync}", appendfsync=appendfsync) as node:
        async with Redis.from_url(node.url, decode_responses=True) as client:
            await client.set("key", "kept")
            assert await client.config_get("appendfsync") == {"appendfsync": appendfsync}
        node.kill()
        assert not node.running
        node.start()
        async with Redis.from_url(node.url, decode_responses=True) as client:
            assert await client.get("key") == "kept"


async def test_a_frozen_redis_answers_nobody_until_it_is_thawed(local_dir: Path, servers: Servers) -> None:
    with servers.redis_node(local_dir / "frozen-redis") as node:
        node.freeze()
        async with Redis.from_url(node.url) as client:
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(client.ping(), timeout=0.2)
        node.thaw()
        assert node.is_ready()


async def test_redis_cluster_of_one_node_takes_every_key(local_dir: Path, servers: Servers) -> None:
    with servers.redis_node(local_dir / "redis-cluster", cluster_enabled=True) as node:
        async with RedisCluster.from_url(node.url) as client:
            for key in "abcdef":
                await client.set(key, "1")
                assert await client.get(key) in ("1", b"1")


async def test_three_rabbitmq_nodes_form_a_cluster_that_survives_one(local_dir: Path, servers: Servers) -> None:
    cluster = RabbitCluster(local_dir / "cluster", installation=servers.rabbitmq_installation)
    cluster.start()
    try:
        status = json.loads(cluster.nodes[0].ctl("cluster_status", "--formatter", "json"))
        assert len(status["running_nodes"]) == 3
        await leave_message(cluster.amqp_urls[0], "replicated")
        cluster.nodes[2].kill()
        assert await find_message(cluster.amqp_urls[1], "replicated") == b"kept"
    finally:
        cluster.kill()


def test_servers_die_with_the_process_that_started_them(local_dir: Path) -> None:
    script = f"""
import os, signal
from pathlib import Path
from tests.matrix.servers import Servers
node = Servers.from_environment().redis_node(Path({str(local_dir / "orphan")!r}))
node.start()
print(node.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    project = Path(__file__).parents[3]
    done = subprocess.run([sys.executable, "-c", script], cwd=project, stdout=subprocess.PIPE, text=True, check=False)
    pid = int(done.stdout)
    give_up_at = time.monotonic() + 10
    while is_alive(pid):
        assert time.monotonic() < give_up_at
        time.sleep(0.02)


def is_alive(pid: int) -> bool:
    """Whether the process runs. A dead process that nobody has reaped does not."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


async def test_a_server_outlives_the_thread_that_started_it(local_dir: Path, servers: Servers) -> None:
    node = servers.redis_node(local_dir / "threads")
    thread = Thread(target=node.start)
    thread.start()
    thread.join()
    assert node.is_ready()
    node.stop()
    assert not node.running


def test_a_server_whose_port_is_taken_does_not_start(local_dir: Path, redis_node: RedisNode) -> None:
    with pytest.raises(LocalError, match=f"another program listens on port {redis_node.port}"):
        RedisNode(local_dir / "taken", port=redis_node.port).start()


def test_a_server_that_cannot_start_says_why(local_dir: Path) -> None:
    class Misconfigured(RedisNode):
        def configuration(self) -> str:
            return "port many\n"

    with pytest.raises(LocalError, match=r"ended with code 1 while starting[\s\S]*port many"):
        Misconfigured(local_dir / "misconfigured").start()


def test_a_missing_program_names_the_command_that_installs_it(local_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(local_dir))
    with pytest.raises(LocalError, match="apt-get install --no-install-recommends redis-server"):
        RedisNode(local_dir / "missing").start()


def test_a_program_that_a_folder_does_not_have_is_named(local_dir: Path, tmp_path: Path) -> None:
    with pytest.raises(LocalError, match=f"/usr/bin/redis-server is missing in {tmp_path}"):
        RedisNode(local_dir / "empty", installation=Installation(tmp_path)).start()


@pytest.mark.parametrize("chosen", [{"BRIDGE_TEST_RABBITMQ": "3.9"}, {"BRIDGE_TEST_REDIS_SERVER": "valkey"}])
def test_a_version_that_nobody_has_is_refused(chosen: dict[str, str]) -> None:
    with pytest.raises(LocalError, match=f"{next(iter(chosen.values()))}' is unknown"):
        Servers.from_environment(chosen)
