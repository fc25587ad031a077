"""Tests that a bridge may start before its servers, and that it refuses an unsuitable broker."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import pamqp.frame
import pytest
from pamqp import commands as spec
from pamqp.common import FieldTable

from tests.fault.api import Api
from tests.fault.stage import Stage, started
from tests.matrix.servers import Servers

CAPABILITIES = ("publisher_confirms", "exchange_exchange_bindings", "basic.nack", "consumer_cancel_notify")


async def test_bridge_started_before_its_servers_becomes_ready_by_itself(
    local_dir: Path, servers: Servers, http: httpx2.AsyncClient
) -> None:
    stage = Stage(local_dir / "started-last", servers)
    bridge = stage.bridge()
    api = Api(http, bridge.url)
    try:
        await asyncio.to_thread(bridge.launch)
        live = await api.insist("GET", "/health/live")
        assert live.status_code == 200
        ready = await api.call("GET", "/health/ready")
        assert (ready.status_code, ready.headers["content-type"]) == (503, "application/problem+json")
        send = await api.send("early", "one")
        assert (send.status_code, send.headers["retry-after"]) == (503, "1")
        process = bridge.pid
        await started(stage.redis)
        assert (await api.call("GET", "/health/ready")).status_code == 503
        await started(stage.rabbit)
        assert (await api.insist("GET", "/health/ready")).status_code == 200
        await api.sent("early", "one", delay=200)
        assert [one["id"] for one in await api.drain("early", 1)] == ["one"]
        assert bridge.pid == process
    finally:
        await asyncio.to_thread(stage.kill)


@pytest.mark.expects_log("service.refused")
@pytest.mark.parametrize(("version", "required"), [("3.9.0", "3.10 or newer"), ("3.13.1", "3.13.3 or newer")])
async def test_unsuitable_broker_is_refused_at_the_start(
    local_dir: Path, servers: Servers, version: str, required: str
) -> None:
    stage = Stage(local_dir / f"refused-{version}", servers)
    async with greeting_broker(version) as amqp_url:
        bridge = stage.bridge(amqp_url=amqp_url)
        try:
            await started(stage.redis)
            await asyncio.to_thread(bridge.launch)
            await asyncio.to_thread(bridge.wait_until_stopped)
        finally:
            await asyncio.to_thread(stage.kill)
    assert bridge.exit_code == 3
    said = bridge.log_file.read_text()
    assert f"version is {version}; it must be {required}" in said


@asynccontextmanager
async def greeting_broker(version: str) -> AsyncIterator[str]:
    """Runs a server that opens AMQP connections and reports this version. Yields its URL."""

    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(8)
        properties: FieldTable = {
            "product": "RabbitMQ",
            "version": version,
            "capabilities": dict.fromkeys(CAPABILITIES, True),
        }
        for frame in (
            spec.Connection.Start(server_properties=properties, mechanisms="PLAIN", locales="en_US"),
            spec.Connection.Tune(channel_max=100, frame_max=131_072, heartbeat=0),
            spec.Connection.OpenOk(),
        ):
            writer.write(pamqp.frame.marshal(frame, 0))
            await reader.read(4096)
        while await reader.read(4096):
            writer.write(pamqp.frame.marshal(spec.Connection.CloseOk(), 0))
        writer.close()

    server = await asyncio.start_server(greet, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        yield f"amqp://guest:guest@127.0.0.1:{port}/"
