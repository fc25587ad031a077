"""Tests the life of jobs over ouqiang/delay-queue's wire, on a running bridge.

No test sleeps: each waits in pops, which end when a job is ready.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import aio_pika
import httpx2
import pytest
import pytest_asyncio

from bridge.local.rabbitmq import RabbitNode
from bridge.local.redis import RedisNode
from bridge.store.client import Store
from bridge.store.kept.topics_by_id import TopicsById
from bridge.store.keys import Keys
from tests.forked_bridge import ForkedBridge
from tests.integration.amqp import Amqp
from tests.wires.jobs import Caller, Json, lines_of

DONE: Json = {"code": 0, "message": "操作成功", "data": None}


class Ouqiang(Caller):
    async def push(self, job_id: str, body: str = "x", *, delay: int = 1, ttr: int = 60, topic: str = "a") -> None:
        answer = await self.post(
            "/push", topic=f"{self.name}.{topic}", id=f"{self.name}-{job_id}", delay=delay, ttr=ttr, body=body
        )
        assert answer == {"code": 0, "message": "添加成功", "data": None}

    async def pop(self, topics: str = "a") -> tuple[str, str]:
        answer = await self.post("/pop", topic=",".join(f"{self.name}.{topic}" for topic in topics))
        data = answer["data"]
        return data["id"].removeprefix(f"{self.name}-"), data["body"]

    async def end(self, how: str, job_id: str) -> None:
        assert await self.post(f"/{how}", id=f"{self.name}-{job_id}") == DONE

    async def get(self, job_id: str) -> Json | None:
        job: Json | None = (await self.post("/get", id=f"{self.name}-{job_id}"))["data"]
        return job

    async def state(self, job_id: str, topic: str = "a") -> str:
        return await self.topic(topic).state(f"{self.name}-{job_id}")


@pytest_asyncio.fixture
async def wire(bridge: ForkedBridge) -> AsyncIterator[Ouqiang]:
    async with httpx2.AsyncClient(base_url=bridge.url, timeout=90) as client:
        yield Ouqiang(bridge.port, client)


@pytest_asyncio.fixture
async def notes(redis_node: RedisNode) -> AsyncIterator[TopicsById]:
    store = Store(redis_node.url, timeout_ms=10_000)
    yield TopicsById(store, Keys("delay"))
    await store.close()


async def test_a_job_is_never_early_and_wakes_a_waiting_pop(wire: Ouqiang) -> None:
    popping = asyncio.create_task(wire.pop())
    began_s = time.time()
    await wire.push("1", "hello")
    assert await popping == ("1", "hello")
    assert time.time() >= began_s + 1


async def test_an_unfinished_job_is_redelivered_after_each_ttr(wire: Ouqiang) -> None:
    began_s = time.time()
    await wire.push("1", ttr=1)
    for _ in range(5):  # more often than the bridge's default of retries
        assert (await wire.pop())[0] == "1"
    assert time.time() >= began_s + 5
    await wire.end("finish", "1")
    await wire.push("2", delay=3)
    assert (await wire.pop())[0] == "2"
    assert await wire.state("1") == "acked"


async def test_delete_before_due_is_final(wire: Ouqiang) -> None:
    await wire.push("1")
    await wire.end("delete", "1")
    assert await wire.get("1") is None
    await wire.push("2", delay=2)
    assert (await wire.pop())[0] == "2"


async def test_a_push_of_a_waiting_id_replaces_the_job(wire: Ouqiang) -> None:
    await wire.push("1", "old", delay=600, ttr=1)
    await wire.push("1", "older", delay=1)
    await wire.push("1", "new", delay=2, ttr=77)
    began_s = time.time()
    looked = await wire.get("1")
    assert looked is not None
    assert (looked["body"], looked["ttr"]) == ("new", 77)
    assert abs(looked["delay"] - began_s - 2) < 60
    assert await wire.pop() == ("1", "new")
    await wire.push("2")
    assert (await wire.pop())[0] == "2"  # no other copy of the first job


async def test_a_push_to_another_topic_moves_the_job(wire: Ouqiang) -> None:
    await wire.push("1", "old", topic="a")
    await wire.push("1", "new", topic="b", delay=2)
    assert await wire.state("1", "a") == "deleted"
    looked = await wire.get("1")
    assert looked is not None
    assert looked["topic"] == f"{wire.name}.b"
    assert await wire.pop("ab") == ("1", "new")
    await wire.end("finish", "1")
    await wire.push("1", "back", topic="a")
    assert await wire.pop("ba") == ("1", "back")


@pytest.mark.parametrize("state", ["ready", "leased"])
async def test_a_push_of_a_due_id_replaces_the_job(wire: Ouqiang, state: str) -> None:
    await wire.push("1", "old", ttr=2)
    if state == "leased":
        assert await wire.pop() == ("1", "old")
    else:
        await wire.topic().until_state(f"{wire.name}-1", "ready")
    await wire.push("1", "new", ttr=60, delay=3)
    assert await wire.state("1") == "waiting"
    assert await wire.pop() == ("1", "new")
    await wire.push("2", delay=2)
    assert (await wire.pop())[0] == "2"


async def test_concurrent_pushes_of_one_id_to_many_topics_leave_one_job(wire: Ouqiang) -> None:
    for turn in range(4):
        topics = "abcde"
        await asyncio.gather(*(wire.push("1", f"{turn}{topic}", topic=topic, delay=600) for topic in topics))
        states = [await wire.state("1", topic) for topic in topics]
        assert states.count("waiting") == 1, states
        looked = await wire.get("1")
        assert looked is not None
        assert looked["topic"] == f"{wire.name}.{topics[states.index('waiting')]}"
        assert looked["body"] == f"{turn}{looked['topic'][-1]}"


async def test_concurrent_pops_never_get_the_same_job(wire: Ouqiang) -> None:
    await asyncio.gather(*(wire.push(str(number), ttr=600) for number in range(20)))
    popped = await asyncio.gather(*(wire.pop() for _ in range(20)))
    assert sorted(int(job_id) for job_id, _ in popped) == list(range(20))


async def test_topics_are_popped_in_the_order_of_the_request(wire: Ouqiang, rabbit: RabbitNode) -> None:
    await wire.push("low", topic="b")
    await wire.push("high", topic="a")
    async with await aio_pika.connect(rabbit.amqp_url) as connection:
        for topic in "ab":  # a record is ready before its message stands in the queue
            await Amqp(connection).until_count(wire.topic(topic).ready_queue, 1)
    assert [(await wire.pop("ab"))[0] for _ in range(2)] == ["high", "low"]


async def test_a_disconnected_pop_takes_no_job(wire: Ouqiang) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", wire.port)
    body = f'{{"topic":"{wire.name}.a"}}'
    writer.write(f"POST /pop HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
    await writer.drain()
    await wire.push("0", topic="b")
    assert (await wire.pop("b"))[0] == "0"  # so the first pop is waiting by now
    writer.close()
    await writer.wait_closed()
    del reader
    await wire.push("1")
    assert (await wire.pop())[0] == "1"
    assert (await wire.topic().look(f"{wire.name}-1"))["attempts"] == 1


async def test_the_same_id_in_another_wires_topic_is_not_changed(wire: Ouqiang) -> None:
    await wire.topic("b").send("theirs", id=f"{wire.name}-1", delay="1h")
    await wire.push("1", topic="a")
    assert await wire.pop() == ("1", "x")
    await wire.end("delete", "1")
    assert await wire.state("1", "b") == "waiting"
    await wire.end("finish", "1")
    assert await wire.state("1", "b") == "waiting"
    assert await wire.get("1") is None


async def test_another_wires_message_can_be_popped_and_finished_by_id(wire: Ouqiang) -> None:
    await wire.topic().send({"order": 1}, id=f"{wire.name}-1")
    assert await wire.pop() == ("1", '{"order":1}')
    await wire.end("finish", "1")
    assert await wire.state("1") == "acked"


async def test_a_job_without_a_note_is_found(wire: Ouqiang, notes: TopicsById) -> None:
    await wire.push("1", delay=600)
    await wire.push("2", delay=600)
    for job_id in ("1", "2"):
        await notes.shorten(f"{wire.name}-{job_id}", keep_ms=0)
        assert await notes.of(f"{wire.name}-{job_id}") == []
    looked = await wire.get("1")
    assert looked is not None
    assert looked["topic"] == f"{wire.name}.a"
    await wire.end("finish", "1")
    await wire.end("delete", "2")
    assert [await wire.state(job_id) for job_id in ("1", "2")] == ["acked", "deleted"]


@pytest.mark.parametrize("then", ["push", "finish", "delete"])
async def test_repeating_an_interrupted_push_leaves_one_job(wire: Ouqiang, notes: TopicsById, then: str) -> None:
    job_id = f"{wire.name}-1"
    await wire.push("1", delay=600, topic="a")
    # This is the state after a push that died before it deleted the job in the former topic.
    await notes.note(job_id, f"{wire.name}.b", keep_ms=60_000)
    await wire.topic("b").send("x", id=job_id, delay="10m", headers={"job-ttr": 60})
    if then == "push":
        await wire.push("1", "again", delay=600, topic="b")
        assert [await wire.state("1", topic) for topic in "ab"] == ["deleted", "waiting"]
    else:
        await wire.end(then, "1")
        ended = {"finish": "acked", "delete": "deleted"}[then]
        assert [await wire.state("1", topic) for topic in "ab"] == [ended, ended]


async def test_a_note_without_a_job_finds_nothing(wire: Ouqiang, notes: TopicsById) -> None:
    await notes.note(f"{wire.name}-1", f"{wire.name}.b", keep_ms=60_000)
    assert await wire.get("1") is None
    await wire.push("1", topic="a")
    assert await wire.pop("ba") == ("1", "x")


async def test_the_documented_script_prints_the_life_of_an_order(wire: Ouqiang) -> None:
    printed = await lines_of("ouqiang.sh", OUQIANG_API=f"http://127.0.0.1:{wire.port}", TOPIC=wire.name)
    pushed, looked, first, second, finished, gone, pushed_2, deleted, pushed_3, popped_3, finished_3 = printed
    assert pushed == pushed_2 == pushed_3 == {"code": 0, "message": "添加成功", "data": None}
    assert (looked["data"]["id"], looked["data"]["ttr"]) == (f"{wire.name}-1001", 1)
    assert first == second == {**DONE, "data": {"id": f"{wire.name}-1001", "body": '{"order": 1001}'}}
    assert finished == gone == deleted == finished_3 == DONE
    assert popped_3["data"]["id"] == f"{wire.name}-1003"
