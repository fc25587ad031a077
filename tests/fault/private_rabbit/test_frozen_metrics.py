"""Tests that the metrics alone show a frozen server, and no figures of it: `/health/ready` is never asked."""

from __future__ import annotations

import asyncio
import re

import httpx2
import pytest

from tests.fault.api import Api
from tests.fault.private_rabbit.test_outages import Outage, rabbit_frozen, redis_frozen
from tests.fault.stage import Stage, started
from tests.waiting import pause

BACK_WITHIN_S = 5.0
OF_SERVERS: dict[str, set[str]] = {
    "store": {"messages", "waiting_messages", "oldest_overdue_seconds", "oldest_ready_seconds", "clock_skew_seconds"},
    "broker": {"queue_messages", "broker_blocked"},
}
ALL = {name for names in OF_SERVERS.values() for name in names}
ONE_WAITS = r'^delaybridge_messages{state="waiting",topic="one"} 1\.0$'


async def exposition(api: Api) -> str:
    return (await api.call("GET", "/metrics")).text


def up(text: str) -> dict[str, float]:
    """The gauge of each part."""
    return {
        part: float(value) for part, value in re.findall(r'^delaybridge_up{part="(\w+)"} (\S+)$', text, re.MULTILINE)
    }


def figures(text: str) -> set[str]:
    """The metrics with a sample, of those that a server tells."""
    shown = set(re.findall(r"^delaybridge_(\w+)[{ ]", text, re.MULTILINE))
    return shown & ALL


async def until_all_up(api: Api) -> str:
    """Scrapes until every part is up. The time limit of the test ends the wait."""
    while True:
        text = await exposition(api)
        if min(up(text).values(), default=0) == 1:
            return text
        await pause()


async def until_audit_reported(api: Api, *, reported: bool) -> None:
    while ('delaybridge_overdue{topic="one"} 0.0' in await exposition(api)) is not reported:
        await pause()


@pytest.mark.parametrize(("outage", "part"), [(redis_frozen, "store"), (rabbit_frozen, "broker")])
async def test_metrics_alone_show_a_frozen_server(
    stage: Stage, http: httpx2.AsyncClient, outage: Outage, part: str
) -> None:
    bridge = stage.bridge()
    await started(bridge)
    api = Api(http, bridge.url)
    await api.sent("one", "one", delay="1h")
    assert re.search(ONE_WAITS, await until_all_up(api), re.MULTILINE)
    async with outage(stage):
        frozen = await exposition(api)
        assert up(frozen)[part] == up(frozen)["checkpoint"] == 0
        (other,) = OF_SERVERS.keys() - {part}
        assert figures(frozen) == OF_SERVERS[other]
        assert "delaybridge_accepted_total" in frozen
    async with asyncio.timeout(BACK_WITHIN_S):
        back = await until_all_up(api)
    assert re.search(ONE_WAITS, back, re.MULTILINE)
    assert figures(back) == ALL
    bridge.kill()


async def test_no_audit_is_reported_while_redis_is_frozen(stage: Stage, http: httpx2.AsyncClient) -> None:
    bridge = stage.bridge(audit_every="1s", audit_grace="1s")
    await started(bridge)
    api = Api(http, bridge.url)
    await api.sent("one", "one", delay="1h")
    await until_audit_reported(api, reported=True)
    async with redis_frozen(stage):
        await until_audit_reported(api, reported=False)
    await until_audit_reported(api, reported=True)
    bridge.kill()
