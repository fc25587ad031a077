"""Tests that clients of wires see bodies of messages that wait, however large, and that a topic can keep fewer."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from pathlib import Path
from time import time
from typing import Any

import httpx2
import pytest_asyncio

from bridge.local.rabbitmq import RabbitNode
from bridge.local.redis import RedisNode
from tests.integration.own import Own, own_bridge
from tests.integration.topic import Topic

LARGE = "abcdefgh" * 25_000
LARGEST = "x" * (1024 * 1024)
HOUR_MS = 3_600_000


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def bridge_of_wires(rabbit: RabbitNode, redis_node: RedisNode, local_dir: Path) -> AsyncIterator[Own]:
    further = {"BRIDGE_LMSTFY_SKIP_VERIFICATION": "true"}
    async with own_bridge(rabbit, redis_node.url, local_dir / "large-bodies", **further) as own:
        yield own


@pytest_asyncio.fixture
async def topic(bridge_of_wires: Own) -> Topic:
    return bridge_of_wires.with_fresh_topic().topic


async def camellia(topic: Topic, call: str, **form: Any) -> Any:
    answer = await topic.client.post(f"/camellia/delayQueue/{call}", data={"topic": topic.name, **form})
    return answer.json()


def content_of(answered: httpx2.Response) -> Any:
    assert answered.status_code < 300, answered.text
    return answered.json()


async def test_lmstfy_shows_a_large_job_that_waits_or_is_next(topic: Topic) -> None:
    path = f"/api/{topic.name}/q"
    for query, body in (("delay=60", LARGEST), ("", LARGE)):
        job_id = (content_of(await topic.client.put(f"{path}?{query}", content=body)))["job_id"]
        looked = content_of(await topic.client.get(f"{path}/job/{job_id}"))
        assert base64.b64decode(looked["data"]).decode() == body
    peeked = content_of(await topic.client.get(f"{path}/peek"))
    assert (peeked["job_id"], base64.b64decode(peeked["data"]).decode()) == (job_id, LARGE)


async def test_camellia_shows_a_large_message_and_redelivers_it_at_once(topic: Topic) -> None:
    sent = (await camellia(topic, "sendMsg", msgId="m-1", msg=LARGE, delayMillis=0))["delayMsg"]
    assert (await camellia(topic, "getMsg", msgId="m-1"))["delayMsg"]["msg"] == LARGE
    await camellia(topic, "longPollingMsg", longPollingTimeoutMillis=60_000, ackTimeoutMillis=HOUR_MS)
    assert (await camellia(topic, "ackMsg", msgId="m-1", ack="false"))["code"] == 200
    (again,) = (await camellia(topic, "longPollingMsg", longPollingTimeoutMillis=60_000))["delayMsgList"]
    assert (again["msgId"], again["msg"], again["retry"]) == (sent["msgId"], LARGE, 2)


async def test_jobs_and_tasks_show_a_large_body(topic: Topic) -> None:
    job = {"topic": topic.name, "id": topic.name, "delay": 60, "ttr": 60, "body": LARGE}
    for _ in ("sent", "replaced"):
        content_of(await topic.client.post("/push", json=job))
        assert (content_of(await topic.client.post("/get", json={"id": topic.name})))["data"]["body"] == LARGE
    task = {"topic": topic.name, "timing_moment": int(time()), "content": LARGE}
    task_id = (content_of(await topic.client.post("/delay/task/add", json=task)))["task_id"]
    asked = {"topic": topic.name, "task_id": task_id}
    assert (content_of(await topic.client.post("/delay/task/pull", json=asked)))["content"] == LARGE


async def test_a_topic_keeps_bodies_up_to_its_own_limit(topic: Topic) -> None:
    assert (await topic.put_policy(keep_body_max=len(LARGE)))["keep_body_max"] == len(LARGE)
    for body, shown in ((LARGE, LARGE), (LARGE + "x", None)):
        sent = await topic.send(body, content_type="text/plain", delay="1h")
        assert (await topic.look(sent["id"])).get("body") == shown
        other = (await camellia(topic, "sendMsg", msg=body, delayMillis=HOUR_MS))["delayMsg"]["msgId"]
        assert (await camellia(topic, "getMsg", msgId=other))["delayMsg"]["msg"] == shown


async def test_a_page_of_large_messages_ends_early_and_none_is_left_out(topic: Topic) -> None:
    await topic.put_policy(keep_body_max=len(LARGEST))
    ids = [(await topic.send(LARGEST, content_type="text/plain", delay="1h"))["id"] for _ in range(40)]
    pages: list[list[str]] = []
    following = ""
    while following is not None:
        answer = await topic.call("GET", f"/messages?limit=100{following}")
        pages.append([one["id"] for one in answer["items"]])
        following = answer["next_cursor"] and f"&cursor={answer['next_cursor']}"
    assert {len(page) for page in pages} == {7, 5}  # the next body of 1 MiB would exceed 8 MiB
    assert sorted(one for page in pages for one in page) == sorted(ids)
