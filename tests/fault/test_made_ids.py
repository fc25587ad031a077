"""Tests sends without an id, whose copies RabbitMQ has before Redis knows of them."""

from __future__ import annotations

from pathlib import Path

import httpx2
import pytest

from bridge.store.scripts import SCRIPTS
from tests.fault.api import Api
from tests.fault.stage import Stage, started
from tests.fault.test_full_redis import bridge_on, memory_full
from tests.proxy import Proxy

DELAY_MS = 4_000  # longer than a send may last, so the id is not claimed
BODY = {"body": 1, "delay": DELAY_MS}


@pytest.mark.parametrize("lost", ["answer", "confirm"])
async def test_refused_send_gives_at_most_one_message(stage: Stage, http: httpx2.AsyncClient, lost: str) -> None:
    topic = f"made-lost-{lost}"
    async with Proxy(stage.redis.url) as redis, Proxy(stage.rabbit.amqp_url) as amqp:
        bridge = stage.bridge(redis_url=redis.url, amqp_url=amqp.url)
        await started(bridge)
        api = Api(http, bridge.url)
        await api.sent(topic, "first", delay="1h")
        if lost == "answer":
            redis.lose_the_answer_to(SCRIPTS["enter"].sha.encode())
        else:
            amqp.lose_the_answer_to(topic.encode())
        answer = await api.call("POST", f"/v1/topics/{topic}/messages", BODY)
        assert answer.status_code == 503
        accepted = await api.insist("POST", f"/v1/topics/{topic}/messages", BODY)
        assert accepted.status_code == 201
        got: list[str] = []
        while accepted.json()["id"] not in got:
            got += [one["id"] for one in await api.drain(topic, 1)]
        assert len(got) <= 2
        bridge.kill()


async def test_redis_that_refuses_writes_lets_no_refused_send_through(
    stage: Stage, local_dir: Path, http: httpx2.AsyncClient
) -> None:
    topic = "made-full"
    async with bridge_on(stage, local_dir, "everysec", topic) as (url, redis):
        api = Api(http, url)
        await api.sent(topic, "first", delay="1h")
        async with memory_full(redis.url):
            answers = [await api.call("POST", f"/v1/topics/{topic}/messages", BODY) for _ in range(8)]
            # The first is published before Redis refuses, so it is accepted. The others must claim first.
            assert [answer.status_code for answer in answers[1:]] == [503] * 7
            accepted = [answer.json()["id"] for answer in answers if answer.status_code == 201]
        await api.sent(topic, "marker", delay=DELAY_MS)
        got: list[str] = []
        while "marker" not in got:
            got += [one["id"] for one in await api.drain(topic, 1)]
        assert sorted(got) == sorted([*accepted, "marker"])
