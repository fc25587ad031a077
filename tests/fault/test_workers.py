"""Tests the processes of one `serve`: a killed one is restarted, and clients see one bridge."""

from __future__ import annotations

import asyncio
import os
import re
import signal

import httpx2
from prometheus_client.parser import text_string_to_metric_families

from tests.fault.api import Api
from tests.fault.stage import Stage, killed, started
from tests.forked_bridge import ForkedBridge
from tests.waiting import pause

ALL = {"api-1", "api-2", "checkpoint-1"}


async def test_killed_checkpoint_is_restarted_and_releases_due_messages(stage: Stage, http: httpx2.AsyncClient) -> None:
    bridge = stage.bridge(workers="3")
    await started(bridge)
    api = Api(http, bridge.url)
    await api.sent("again", "warm")
    await api.drain("again", 1)
    os.kill(pids(bridge)["checkpoint-1"], signal.SIGKILL)
    await api.sent("again", "after", delay=200)
    assert [one["id"] for one in await api.drain("again", 1)] == ["after"]
    assert "worker.ended" in bridge.log_file.read_text()
    await killed(bridge)


async def test_calls_are_answered_while_api_processes_are_killed_one_by_one(
    stage: Stage, http: httpx2.AsyncClient
) -> None:
    bridge = stage.bridge(workers="3")
    await started(bridge)
    api = Api(http, bridge.url)
    sent: set[str] = set()
    enough = asyncio.Event()

    async def send(lane: int) -> None:
        for number in range(40):
            message_id = f"{lane}-{number}"
            await api.sent("killed", message_id)
            sent.add(message_id)
            if len(sent) >= 80:
                enough.set()

    lanes = [asyncio.create_task(send(lane)) for lane in range(8)]
    workers = pids(bridge)
    for worker in ("api-1", "api-2"):
        os.kill(workers[worker], signal.SIGKILL)
        await asyncio.wait_for(enough.wait(), 60)
    await asyncio.wait_for(asyncio.gather(*lanes), 60)
    assert {one["id"] for one in await api.drain("killed", len(sent))} >= sent
    await killed(bridge)


async def test_each_process_shows_the_metrics_and_health_of_all(stage: Stage, http: httpx2.AsyncClient) -> None:
    bridge = stage.bridge(workers="3")
    await started(bridge)
    api = Api(http, bridge.url)
    await api.sent("shown", "one", delay=200)
    await api.drain("shown", 1)
    page = await until_shown(api, 'delaybridge_released_total{process="checkpoint-1",topic="shown"} 1.0')
    assert set(re.findall(r'process="([^"]+)"', page)) == ALL
    ready = await api.call("GET", "/health/ready")
    assert set(ready.json()["parts"]) >= {"broker", "store", "watch", "checkpoint", "acks", "audit", "push"}
    checkpoint = pids(bridge)["checkpoint-1"]
    os.kill(checkpoint, signal.SIGSTOP)
    try:
        ready = await api.call("GET", "/health/ready")
    finally:
        os.kill(checkpoint, signal.SIGCONT)
    assert (ready.status_code, ready.json()["parts"]["checkpoint-1"]) == (503, "does not answer")
    await killed(bridge)


async def test_counts_of_workers_add_up_and_a_kill_makes_none_fall(stage: Stage, http: httpx2.AsyncClient) -> None:
    bridge = stage.bridge(workers="3")
    await started(bridge)
    api = Api(http, bridge.url)
    await api.sent("summed", "first")

    async def created(phase: str) -> int:
        answers = await asyncio.gather(*(api.send("summed", f"{phase}-{number}") for number in range(60)))
        return sum(answer.status_code == 201 for answer in answers)

    first = await counters(api)
    sent = await created("before")
    before = await counters(api)
    assert accepted(first, before) == answered(first, before) == sent > 0
    killed_pid = pids(bridge)["api-1"]
    os.kill(killed_pid, signal.SIGKILL)
    # Until the worker runs again: a scrape shows all processes.
    while killed_pid in bridge.worker_pids or {process for process, _ in await counters(api)} != ALL:
        await pause()
    again = await counters(api)
    sent = await created("after")
    after = await counters(api)
    assert accepted(again, after) == answered(again, after) == sent > 0
    assert all(after[series] >= before[series] for series in before if series[0] != "api-1")
    await killed(bridge)


async def test_roles_in_separate_processes_form_one_bridge_with_own_health(
    stage: Stage, http: httpx2.AsyncClient
) -> None:
    calls, releases = stage.bridge(roles="api"), stage.bridge(roles="checkpoint")
    await started(calls, releases)
    api, other = Api(http, calls.url), Api(http, releases.url)
    await api.sent("apart", "one", delay=200)
    assert [one["id"] for one in await api.drain("apart", 1)] == ["one"]
    assert set((await api.call("GET", "/health/ready")).json()["parts"]) == {
        "broker",
        "store",
        "watch",
        "leases",
        "probes",
    }
    ready = await other.call("GET", "/health/ready")
    assert set(ready.json()["parts"]) == {
        *("broker", "store", "watch", "leases", "probes"),
        *("checkpoint", "acks", "audit", "ingress", "operations", "schedules"),
    }
    await until_shown(other, 'delaybridge_released_total{topic="apart"} 1.0')
    assert (await other.send("apart", "two")).status_code == 404
    await killed(calls, releases)


Series = dict[tuple[str, str], float]
"""The values of all counters, by process and by name with all labels."""


async def counters(api: Api) -> Series:
    page = (await api.insist("GET", "/metrics")).text
    return {
        (sample.labels.get("process", ""), f"{sample.name} {sorted(sample.labels.items())}"): sample.value
        for family in text_string_to_metric_families(page)
        if family.type in {"counter", "histogram"}
        for sample in family.samples
    }


def increase(before: Series, after: Series, *words: str) -> float:
    """The sum of the increases of the series with these words, as Prometheus takes them: a counter that fell has begun
    at 0."""
    grown = {series: value - before.get(series, 0) for series, value in after.items()}
    return sum(
        after[series] if by < 0 else by for series, by in grown.items() if all(word in series[1] for word in words)
    )


def accepted(before: Series, after: Series) -> float:
    return increase(before, after, "delaybridge_accepted_total", "summed")


def answered(before: Series, after: Series) -> float:
    return increase(before, after, "delaybridge_http_requests_total", "'send'", "'201'")


async def until_shown(api: Api, line: str) -> str:
    """The metrics, once they have the line. A release is counted only when its topic's queues would survive a kill."""
    while line not in (page := (await api.call("GET", "/metrics")).text):
        await pause()
    return page


def pids(bridge: ForkedBridge) -> dict[str, int]:
    """The process id of each worker by name. Workers are forked in the order of their names."""
    return dict(zip(sorted(ALL), bridge.worker_pids, strict=True))
