"""Tests that a bridge ends cleanly on SIGTERM: accepted messages stay, and another bridge delivers those it held."""

from __future__ import annotations

import asyncio
import os
import time
from typing import Any

import aio_pika
import httpx2
import pytest

from bridge.model.message import Envelope
from bridge.model.values import Draft
from tests.fault.api import Api
from tests.fault.stage import Stage, killed, started
from tests.inside.running import Gate, running
from tests.waiting import pause


@pytest.mark.parametrize("workers", ["1", "3"])
async def test_every_send_accepted_during_shutdown_is_delivered(
    stage: Stage, http: httpx2.AsyncClient, workers: str
) -> None:
    ending, other = stage.bridge(workers=workers), stage.bridge()
    await started(ending, other)
    pids = [ending.pid, *ending.worker_pids]
    topic = f"ended-{workers}"
    api = Api(http, ending.url)
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
    ending.ask_to_stop()
    await asyncio.to_thread(ending.wait_until_stopped)
    assert ending.exit_code == 0
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
    assert "worker.killed" not in ending.log_file.read_text()
    await asyncio.wait_for(asyncio.gather(*lanes), 30)
    pulled: set[str] = set()
    elsewhere = Api(http, other.url)
    while not accepted <= pulled:
        got = await elsewhere.pull(topic, wait_ms=30_000)
        assert got, f"{len(accepted - pulled)} accepted messages are lost"
        await elsewhere.ack(topic, [one["receipt"] for one in got])
        pulled |= {one["id"] for one in got}
    await killed(other)


async def test_messages_held_by_a_stopped_checkpoint_are_delivered_by_another(
    stage: Stage, http: httpx2.AsyncClient
) -> None:
    ending, other = stage.bridge(), stage.bridge()
    await started(ending)
    ids = [f"held-{number}" for number in range(20)]
    api = Api(http, ending.url)
    for message_id in ids:
        await api.sent("held", message_id, delay=5_000)
    # With Redis frozen the checkpoint can release nothing, so it holds every due message.
    stage.redis.freeze()
    try:
        async with asyncio.timeout(60):
            while await asyncio.to_thread(in_flight, stage) < len(ids):
                await pause()
        ending.ask_to_stop()
        await asyncio.to_thread(ending.wait_until_stopped)
        assert ending.exit_code == 0
    finally:
        stage.redis.thaw()
    await started(other)
    assert sorted(one["id"] for one in await Api(http, other.url).drain("held", len(ids))) == sorted(ids)
    await killed(other)


async def test_sigterm_answers_a_long_poll_and_closes_its_connection(stage: Stage, http: httpx2.AsyncClient) -> None:
    ending = stage.bridge(grace="2s")
    await started(ending)
    api = Api(http, ending.url)
    await api.sent("polled", "first")
    await api.drain("polled", 1)
    poll = asyncio.create_task(api.call("POST", "/v1/topics/polled/pull", {"wait": 60_000}))
    async with asyncio.timeout(55):
        while await consumers_of(stage, "ready.polled") == 0:
            await pause()
    ending.ask_to_stop()
    response = await poll
    assert (response.status_code, response.json()) == (200, {"messages": []})
    assert response.headers["connection"] == "close"
    await asyncio.to_thread(ending.wait_until_stopped)
    assert ending.exit_code == 0


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        pytest.param("POST", "/v1/topics/outlasting/messages", {"body": 1, "delay": "1m"}, id="busy"),
        pytest.param("PUT", "/v1/topics/outlasting", {"max_retry": 3}, id="rare"),
    ],
)
@pytest.mark.expects_log("Cancel 1 running task(s), timeout graceful shutdown exceeded", at_least=0)
async def test_call_that_outlasts_the_grace_period_is_refused(
    stage: Stage, http: httpx2.AsyncClient, method: str, path: str, body: dict[str, Any]
) -> None:
    ending = stage.bridge(drain="2s", grace="0s", store_timeout="30s")
    await started(ending)
    api = Api(http, ending.url)
    await api.sent("outlasting", "before", delay=60_000)
    stage.redis.freeze()
    try:
        call = asyncio.create_task(api.call(method, path, body))
        ending.ask_to_stop()
        response = await call  # which arrives while the bridge drains
        await asyncio.to_thread(ending.wait_until_stopped)
    finally:
        stage.redis.thaw()
    assert (response.status_code, response.json()["detail"]) == (503, "the bridge is stopping; try again")
    assert response.headers["retry-after"] == "1"
    assert response.headers["x-request-id"] == response.json()["request_id"]


async def test_draining_bridge_is_not_ready_and_still_answers_calls(stage: Stage, http: httpx2.AsyncClient) -> None:
    ending = stage.bridge(drain="10m")
    await started(ending)
    api = Api(http, ending.url)
    await api.sent("drained", "before")
    ending.ask_to_stop()
    async with asyncio.timeout(30):
        while (ready := await api.call("GET", "/health/ready")).status_code == 200:
            await pause()
    assert (ready.status_code, ready.json()["parts"]["process"]) == (503, "stopping")
    async with httpx2.AsyncClient() as another:
        response = await Api(another, ending.url).send("drained", "meanwhile")
    assert (response.status_code, response.headers["connection"]) == (201, "close")
    # A draining bridge waits for no message, and the second one may be on its way yet.
    got: set[str] = set()
    while not got >= {"before", "meanwhile"}:
        got |= {one["id"] for one in await api.drain("drained", 1)}
    assert got == {"before", "meanwhile"}
    await killed(ending)


async def consumers_of(stage: Stage, queue: str) -> int:
    async with await aio_pika.connect(stage.rabbit.amqp_url) as connection:
        declared = await (await connection.channel()).declare_queue(queue, passive=True)
        return declared.declaration_result.consumer_count or 0


def in_flight(stage: Stage) -> int:
    """The number of messages that consumers of the stage hold."""
    listed = "rabbit_channel:info_all([vhost, messages_unacknowledged])"
    vhost = stage.rabbit.amqp_url.rpartition("/")[2]
    return int(stage.rabbit.evaluate(f'lists:sum([Count || [{{_, <<"{vhost}">>}}, {{_, Count}}] <- {listed}])'))


async def test_stop_ends_when_the_process_was_starved_for_the_grace_period(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopping = asyncio.Event()

    async def starve() -> None:
        await stopping.wait()
        time.sleep(0.3)  # noqa: ASYNC251 - it blocks the process on purpose

    async with running(stage, grace=100) as service:
        gate = Gate(monkeypatch)  # never opened, so a batch stays in flight
        draft = Draft(topic="starved", id="it", envelope=Envelope(body=b"1"), delay_ms=2_000)
        await service.sending.send(draft)
        async with asyncio.timeout(30):
            await gate.reached.wait()
            starving = asyncio.create_task(starve())
            asyncio.get_running_loop().call_later(0.1, stopping.set)
            await stopping.wait()  # before the other task, so `stop` has begun when that one blocks the process
            await service.stop()
            await starving
