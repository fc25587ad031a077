"""SIGTERM ends a bridge in good order: what was answered stands, and what it held goes on through another."""

from __future__ import annotations

import asyncio
import os

import httpx2
import pytest

from tests.fault.api import Api
from tests.fault.stage import Stage, killed, started
from tests.waiting import pause


@pytest.mark.parametrize("workers", ["1", "3"])
async def test_each_send_under_way_is_answered_and_there_or_not_accepted(
    stage: Stage, http: httpx2.AsyncClient, workers: str
) -> None:
    told, other = stage.bridge(workers=workers), stage.bridge()
    await started(told, other)
    pids = [told.pid, *told.worker_pids]
    topic = f"ended-{workers}"
    api = Api(http, told.url)
    await api.sent(topic, "warm", delay=60_000)
    accepted: set[str] = set()
    enough = asyncio.Event()

    async def send_until_it_is_gone(lane: int) -> None:
        for number in range(10_000):
            message_id = f"{lane}-{number}"
            try:
                response = await api.send(topic, message_id, delay=100 * (number % 10))
            except httpx2.TransportError:
                return
            if response.status_code == 201:
                accepted.add(message_id)
                if len(accepted) >= 200:
                    enough.set()

    lanes = [asyncio.create_task(send_until_it_is_gone(lane)) for lane in range(32)]
    await asyncio.wait_for(enough.wait(), 30)
    told.ask_to_stop()
    await asyncio.to_thread(told.wait_until_stopped)
    assert told.exit_code == 0
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
    assert "worker.killed" not in told.log_file.read_text()
    await asyncio.wait_for(asyncio.gather(*lanes), 30)
    pulled: set[str] = set()
    elsewhere = Api(http, other.url)
    while not accepted <= pulled:
        got = await elsewhere.pull(topic, wait_ms=30_000)
        assert got, f"{len(accepted - pulled)} accepted messages are nowhere"
        await elsewhere.ack(topic, [one["receipt"] for one in got])
        pulled |= {one["id"] for one in got}
    await killed(other)


async def test_what_the_checkpoint_holds_when_it_is_told_to_end_is_delivered_by_another(
    stage: Stage, http: httpx2.AsyncClient
) -> None:
    told, other = stage.bridge(), stage.bridge()
    await started(told)
    ids = [f"held-{number}" for number in range(20)]
    api = Api(http, told.url)
    for message_id in ids:
        await api.sent("held", message_id, delay=5_000)
    # With Redis frozen it may decide nothing, so it keeps all that comes due.
    stage.redis.freeze()
    try:
        async with asyncio.timeout(60):
            while await asyncio.to_thread(unacknowledged, stage, "delay.checkpoint") < len(ids):
                await pause()
        told.ask_to_stop()
        await asyncio.to_thread(told.wait_until_stopped)
        assert told.exit_code == 0
    finally:
        stage.redis.thaw()
    await started(other)
    assert sorted(one["id"] for one in await Api(http, other.url).drain("held", len(ids))) == sorted(ids)
    await killed(other)


async def test_a_long_poll_is_answered_when_its_bridge_is_told_to_end_and_its_connection_closed(
    stage: Stage, http: httpx2.AsyncClient
) -> None:
    told = stage.bridge(grace="2s")
    await started(told)
    api = Api(http, told.url)
    await api.sent("polled", "first")
    await api.drain("polled", 1)
    poll = asyncio.create_task(api.call("POST", "/v1/topics/polled/pull", {"wait": 60_000}))
    async with asyncio.timeout(55):
        while await asyncio.to_thread(consumers_of, stage, "ready.polled") == 0:
            await pause()
    told.ask_to_stop()
    response = await poll
    assert (response.status_code, response.json()) == (200, {"messages": []})
    assert response.headers["connection"] == "close"
    await asyncio.to_thread(told.wait_until_stopped)
    assert told.exit_code == 0


async def test_a_bridge_that_drains_says_that_it_is_not_ready_and_takes_calls_all_the_same(
    stage: Stage, http: httpx2.AsyncClient
) -> None:
    told = stage.bridge(drain="10m")
    await started(told)
    api = Api(http, told.url)
    await api.sent("drained", "before")
    told.ask_to_stop()
    async with asyncio.timeout(30):
        while (ready := await api.call("GET", "/health/ready")).status_code == 200:
            await pause()
    assert (ready.status_code, ready.json()["parts"]["process"]) == (503, "stopping")
    async with httpx2.AsyncClient() as another:
        response = await Api(another, told.url).send("drained", "meanwhile")
    assert (response.status_code, response.headers["connection"]) == (201, "close")
    assert {one["id"] for one in await api.drain("drained", 2)} == {"before", "meanwhile"}
    await killed(told)


def consumers_of(stage: Stage, queue: str) -> int:
    return stage.list_queues("consumers")[queue][0]


def unacknowledged(stage: Stage, queue: str) -> int:
    """How many of the queue's messages a consumer has and has not acknowledged."""
    return stage.list_queues("messages_unacknowledged")[queue][0]
