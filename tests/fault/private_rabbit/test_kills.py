"""Tests that `kill -9` of each process, one after another and under load, breaks no promise."""

from __future__ import annotations

import asyncio

import httpx2
import pytest

from tests.events import What
from tests.fault.api import Api
from tests.fault.consumers import ended, over_amqp, over_http
from tests.fault.load import Load
from tests.fault.stage import Stage, killed, started
from tests.fault.whereabouts import whereabouts
from tests.history import History

RATE_PER_S = 40
MAX_RETRY = 3
PULLED, CONSUMED = "pulled", "consumed"


@pytest.mark.timeout(150)
async def test_kill_9_of_each_process_loses_no_message_and_delivers_none_early(
    stage: Stage, http: httpx2.AsyncClient
) -> None:
    producing, consuming = stage.bridge(max_retry=str(MAX_RETRY)), stage.bridge(max_retry=str(MAX_RETRY))
    await started(producing, consuming)
    history = History(MAX_RETRY)
    sender, puller = Api(http, producing.url), Api(http, consuming.url)
    load = Load(sender, history, [PULLED, CONSUMED], rate_per_s=RATE_PER_S, seed=1)
    consumers = [
        asyncio.create_task(over_http(puller, PULLED, history, lease_ms=3_000)),
        asyncio.create_task(over_http(puller, PULLED, history, lease_ms=3_000)),
        asyncio.create_task(over_amqp(stage.rabbit.amqp_url, f"ready.{CONSUMED}", history)),
    ]
    stop = asyncio.Event()
    sending = asyncio.create_task(load.run(stop))
    try:
        # By then RabbitMQ has persisted every queue.
        await history.more_accepted(3 * RATE_PER_S, within_s=30)
        for victim in (consuming, producing, stage.redis, stage.rabbit):
            await killed(victim)
            await started(victim)
            await history.more_accepted(RATE_PER_S, within_s=30)
        stop.set()
        await sending
        await history.nothing_lost(within_s=30)
        await load.marks()
        await history.nothing_lost(within_s=30)
    finally:
        await ended(sending, *consumers)
    sends = history.counts(What.SENDING)
    assert history.accepted_count == len(sends) >= 7 * RATE_PER_S
    assert any(count > 1 for count in sends.values())  # some sends were refused during the kills
    undelivered = sends.keys() - set(history.verdict().delivered)
    assert len(undelivered & history.counts(What.DELETED).keys()) > 25
    assert history.verdict().wrong == {}, await whereabouts(history, sender, [PULLED, CONSUMED], stage.rabbit)
    assert any(event.attempt > 1 for event in history.events)  # some were delivered again
