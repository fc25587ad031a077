"""Tests that restarting bridges one by one under load loses no message, delivers none twice and delays no client."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx2
import pytest

from bridge.local.ports import free_ports
from tests.fault.stage import Stage, killed, started
from tests.fault.traffic import Around, under_load
from tests.forked_bridge import PATIENT, ForkedBridge

BRIDGES = 3


class OneOfSeveral(ForkedBridge):
    """A bridge that is ready once its own log says so, as any bridge may answer on a shared port."""

    def launch(self) -> None:
        self._starts = self._logged_starts()
        super().launch()

    def is_ready(self) -> bool:
        return self._logged_starts() > self._starts and super().is_ready()

    def _logged_starts(self) -> int:
        return self.log_file.read_text().count("service.started") if self.log_file.exists() else 0


@pytest.mark.timeout(300)
@pytest.mark.parametrize("shared", [False, True], ids=["a port each", "one port"])
async def test_rolling_restart_loses_no_message_and_delivers_none_twice(
    stage: Stage, http: httpx2.AsyncClient, tmp_path: Path, shared: bool
) -> None:
    ports = free_ports(1) * BRIDGES if shared else free_ports(BRIDGES)
    servers = {"BRIDGE_AMQP_URL": stage.rabbit.amqp_url, "BRIDGE_REDIS_URL": stage.redis.url, **PATIENT}
    bridges = [
        OneOfSeveral(tmp_path / str(number) / "bridge.log", port, servers, port_is_shared=shared)
        for number, port in enumerate(ports)
    ]
    await started(*bridges)
    api = Around(http, [bridge.url for bridge in bridges])
    try:
        async with under_load(api, "shared" if shared else "apart") as traffic:
            for bridge in bridges:
                bridge.ask_to_stop()
                await asyncio.to_thread(bridge.wait_until_stopped)
                assert bridge.exit_code == 0
                await started(bridge)
                await traffic.more_sent(20)
    finally:
        await killed(*bridges)
