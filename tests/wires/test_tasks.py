"""Tests the task wire on a running bridge: literal requests and answers, and the life of tasks."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import httpx2
import pytest
import pytest_asyncio

from bridge.local.redis import RedisNode
from bridge.store.client import Store
from bridge.store.kept.task_ids import TaskIds
from bridge.store.keys import Keys
from bridge.store.replies import whole
from tests.integration.topic import Topic
from tests.waiting import pause

SUCCESS = {"dm_error": 0, "error_msg": "操作成功"}
NONE_DUE = {**SUCCESS, "task_id": None, "content": None}


class Tasks:
    """A topic that no other test uses, and the two calls on it."""

    def __init__(self, client: httpx2.AsyncClient) -> None:
        self.client = client
        self.topic = f"tasks-{uuid4().hex[:12]}"

    async def call(self, name: str, **fields: Any) -> dict[str, Any]:
        answer = await self.client.post(f"/delay/task/{name}", json={"topic": self.topic, **fields})
        assert answer.status_code == 200, answer.text
        members: dict[str, Any] = answer.json()
        return members

    async def add(self, content: Any = "abc", in_s: int = 0) -> int:
        added = await self.call("add", timing_moment=int(time.time()) + in_s, content=content)
        assert added == {**SUCCESS, "task_id": added["task_id"]}
        task_id: int = added["task_id"]
        return task_id

    async def pull(self, **fields: Any) -> dict[str, Any]:
        return await self.call("pull", **fields)

    async def pull_until_one(self) -> dict[str, Any]:
        """The wire has no long poll, so an empty pull of another topic paces the loop. The test's timeout ends it."""
        while (pulled := await self.pull()) == NONE_DUE:
            await pause()
        return pulled


@pytest_asyncio.fixture
async def tasks(bridge_url: str) -> AsyncIterator[Tasks]:
    async with httpx2.AsyncClient(base_url=bridge_url, timeout=60) as client:
        yield Tasks(client)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def store(redis_node: RedisNode) -> AsyncIterator[Store]:
    store = Store(redis_node.url, timeout_ms=10_000)
    yield store
    await store.close()


async def exchange(bridge_url: str, request: str) -> tuple[str, bytes]:
    """Sends a literal request. Returns the first line and the body of the answer."""
    host, port = urlsplit(bridge_url).netloc.split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(request.encode())
    whole = await reader.read()
    writer.close()
    await writer.wait_closed()
    head, _, body = whole.partition(b"\r\n\r\n")
    assert b"content-type: application/json" in head.lower()
    return head.decode().splitlines()[0], body


def request(name: str, body: str, content_type: str) -> str:
    size = len(body.encode())
    return (
        f"POST /delay/task/{name} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
        f"Content-Type: {content_type}\r\nContent-Length: {size}\r\n\r\n{body}"
    )


@pytest.mark.parametrize(
    ("add", "content_type", "content"),
    [
        ('{"topic":"%s","timing_moment":1700000000,"content":"你好"}', "application/json", '"你好"'),
        ('{"topic":"%s","timing_moment":1700000000,"content":"你好"}', "application/x-www-form-urlencoded", '"你好"'),
        ("topic=%s&timing_moment=1700000000&content=%%E4%%BD%%A0+x", "application/x-www-form-urlencoded", '"你 x"'),
        ("topic=%s&timing_moment=1700000000&content=1.50", "text/plain", '"1.50"'),
        (
            ' {"topic":"%s","timing_moment":"1700000000","content":{"n":12345678901234567890.10}}',
            "text/plain",
            '{"n":12345678901234567890.10}',
        ),
        ('{"topic":"%s","timing_moment":1.7e9,"content":[1,null]}', "application/json", "[1,null]"),
        ('{"topic":"%s","timing_moment":1.7e9,"content":1.234567890123456789}', "text/json", "1.234567890123456789"),
    ],
)
async def test_a_task_is_answered_byte_for_byte(
    bridge_url: str, tasks: Tasks, add: str, content_type: str, content: str
) -> None:
    line, body = await exchange(bridge_url, request("add", add % tasks.topic, content_type))
    assert line == "HTTP/1.1 200 OK"
    task_id = json.loads(body)["task_id"]
    assert body.decode() == f'{{"dm_error":0,"error_msg":"操作成功","task_id":{task_id}}}'

    pulled = f'{{"dm_error":0,"error_msg":"操作成功","task_id":{task_id},"content":{content}}}'
    form = f"topic={tasks.topic}"
    asked = request("pull", form, "application/x-www-form-urlencoded")
    none = "HTTP/1.1 200 OK", '{"dm_error":0,"error_msg":"操作成功","task_id":null,"content":null}'.encode()
    # The first message of a topic may reach its new queue a moment after the answer.
    while (first := await exchange(bridge_url, asked)) == none:
        await pause()
    assert first == ("HTTP/1.1 200 OK", pulled.encode())
    assert await exchange(bridge_url, asked) == none
    again = request("pull", f"{form}&task_id={task_id}", "application/x-www-form-urlencoded")
    assert await exchange(bridge_url, again) == ("HTTP/1.1 200 OK", pulled.encode())


async def test_a_task_is_never_early(tasks: Tasks) -> None:
    far_id = (await tasks.call("add", timing_moment=int(time.time()) + 3_600, content="far"))["task_id"]
    early = await tasks.pull(task_id=far_id)
    assert (early["dm_error"], early["error_msg"]) == (425, f"任务未到期: the task {far_id} is not due yet")
    assert await tasks.pull() == NONE_DUE

    moment_s = int(time.time()) + 2
    task_id = (await tasks.call("add", timing_moment=moment_s, content="later"))["task_id"]
    assert await tasks.pull_until_one() == {**SUCCESS, "task_id": task_id, "content": "later"}
    assert time.time() >= moment_s


async def test_a_consumed_task_is_not_delivered_again_and_stays_readable(tasks: Tasks) -> None:
    task_id = await tasks.add({"order": 1001})
    topic = Topic(tasks.client, tasks.topic)

    assert (await tasks.pull_until_one())["task_id"] == task_id

    assert await tasks.pull() == NONE_DUE
    record = await topic.until_state(str(task_id), "acked")
    assert record["attempts"] == 1
    for _ in range(2):
        assert await tasks.pull(task_id=task_id) == {**SUCCESS, "task_id": task_id, "content": {"order": 1001}}


@pytest.mark.parametrize("pulled_before", [True, False], ids=["pulled", "by its number"])
async def test_a_consumed_task_is_kept_for_three_days(tasks: Tasks, store: Store, pulled_before: bool) -> None:
    task_id = await tasks.add()
    await (tasks.pull_until_one() if pulled_before else tasks.pull(task_id=task_id))
    await Topic(tasks.client, tasks.topic).until_state(str(task_id), "acked")
    record, envelope, *_ = Keys("delay").record(tasks.topic, str(task_id))
    assert whole(await store.command("PTTL", record)) > 2 * 86_400_000
    assert whole(await store.command("PTTL", envelope)) < 0  # a short body is in the record


async def test_reading_a_due_task_by_its_number_consumes_it(tasks: Tasks) -> None:
    first, second = await tasks.add("first"), await tasks.add("second")
    assert (await tasks.pull(task_id=str(second)))["content"] == "second"
    assert (await tasks.pull_until_one())["task_id"] == first
    assert await tasks.pull() == NONE_DUE


@pytest.mark.parametrize(
    ("call", "fields", "text"),
    [
        ("add", {"timing_moment": 1, "content": "a", "topic": None}, "topic: is required"),
        ("add", {"timing_moment": 1, "content": "a", "topic": "a b"}, "topic: must be a name or namespace/name"),
        ("add", {"content": "a"}, "timing_moment: must be a whole number"),
        ("add", {"timing_moment": -1, "content": "a"}, "timing_moment: must be a whole number"),
        ("add", {"timing_moment": 1.5, "content": "a"}, "timing_moment: must be a whole number"),
        ("add", {"timing_moment": True, "content": "a"}, "timing_moment: must be a whole number"),
        ("add", {"timing_moment": "soon", "content": "a"}, "timing_moment: must be a whole number"),
        ("add", {"timing_moment": 1_796_115_600_000, "content": "a"}, "timing_moment: must be a whole number"),
        ("add", {"timing_moment": 200_000_000_000, "content": "a"}, "beyond the longest delay of 999 days"),
        ("add", {"timing_moment": 1}, "content: is required"),
        ("add", {"timing_moment": 1, "content": ""}, "content: is required"),
        ("add", {"timing_moment": 1, "content": "a" * 1_048_577}, "content: must have at most 1048576 bytes"),
        ("add", {"timing_moment": 1, "content": {"url": "http://hooks.example/"}}, "content: must be https"),
        ("add", {"timing_moment": 1, "content": {"url": "https://10.0.0.1/"}}, "is not a public address (private"),
        ("add", {"timing_moment": 1, "content": {"url": "nowhere"}}, "content: url: must be https://host"),
        ("add", {"timing_moment": 1, "content": {"url": 5}}, "content: url: must be a string"),
        ("add", {"timing_moment": 1, "content": '{"url": "/x", "sn": "none"}'}, "sn: there is no such service"),
        ("pull", {"topic": None}, "topic: is required"),
        ("pull", {"task_id": "x"}, "task_id: must be a whole number"),
    ],
)  # fmt: skip
async def test_an_invalid_member_is_400_and_named(tasks: Tasks, call: str, fields: dict[str, Any], text: str) -> None:
    answer = await tasks.call(call, **fields)
    assert answer == {"dm_error": 400, "error_msg": answer["error_msg"]}
    assert answer["error_msg"].startswith("参数错误: ")
    assert text in answer["error_msg"]


@pytest.mark.parametrize("body", ["{", "{x}", b"\xff=\xff", "&".join(f"a{n}=1" for n in range(200))])
async def test_a_malformed_body_is_400(bridge_url: str, body: str | bytes) -> None:
    async with httpx2.AsyncClient(base_url=bridge_url, timeout=60) as client:
        answer = (await client.post("/delay/task/add", content=body)).json()
    assert answer["dm_error"] == 400
    assert answer["error_msg"].startswith("参数错误: ")


async def test_an_unknown_task_is_404(tasks: Tasks) -> None:
    answer = await tasks.pull(task_id=5)
    assert answer == {"dm_error": 404, "error_msg": "任务不存在: there is no task 5, or its content was not kept"}


async def test_a_deleted_task_is_404(tasks: Tasks) -> None:
    task_id = await tasks.add(in_s=3_600)
    await Topic(tasks.client, tasks.topic).delete(str(task_id))
    assert (await tasks.pull(task_id=task_id))["dm_error"] == 404


async def test_task_ids_are_exact_in_json_and_unique(store: Store) -> None:
    """Ids of several processes are unique, also after Redis has lost its data."""
    keys = Keys(f"numbers-{uuid4().hex[:8]}")
    numbers: list[int] = []
    for _ in range(3):
        processes = [TaskIds(store, keys) for _ in range(3)]
        numbers += await asyncio.gather(*(process.next() for process in processes for _ in range(600)))
        await store.command("DEL", keys.task_id)
    assert len(set(numbers)) == len(numbers) == 3 * 3 * 600
    assert max(numbers) < 2**53
    assert all(float(number) == number for number in numbers)
