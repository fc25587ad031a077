"""Tests the life of messages over camellia's wire, on a running bridge, RabbitMQ and Redis.

No test sleeps: each waits in long polls, which end when a message is ready.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

import httpx2
import pytest
import pytest_asyncio

from tests.wires.jobs import lines_of

MANY_MINUTES_MS = 600_000

Msg = dict[str, Any]


class Topic:
    """A topic that no other test uses, and the calls of the wire on it."""

    def __init__(self, client: httpx2.AsyncClient) -> None:
        self._client = client
        self.name = f"camellia-{uuid4().hex}"

    async def call(self, call: str, *, patience_s: float = 60, **form: Any) -> Any:
        path, form = f"/camellia/delayQueue/{call}", {"topic": self.name, **form}
        answer = await self._client.post(path, data=form, timeout=httpx2.Timeout(60, read=patience_s))
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def send(self, msg: str = "abc", delay_ms: int = 0, **form: Any) -> Msg:
        answer = await self.call("sendMsg", msg=msg, delayMillis=delay_ms, **form)
        assert (answer["code"], answer["msg"]) == (200, "success")
        sent: Msg = answer["delayMsg"]
        return sent

    async def poll(self, wait_ms: int = 30_000, **form: Any) -> list[Msg]:
        answer = await self.call("longPollingMsg", longPollingTimeoutMillis=wait_ms, **form)
        assert answer["code"] == 200
        pulled: list[Msg] = answer["delayMsgList"]
        return pulled

    async def poll_one(self, **form: Any) -> Msg:
        (msg,) = await self.poll(**form)
        return msg

    async def code(self, call: str, msg_id: str, **form: Any) -> int:
        code: int = (await self.call(call, msgId=msg_id, **form))["code"]
        return code

    async def get(self, msg_id: str) -> Msg:
        msg: Msg = (await self.call("getMsg", msgId=msg_id))["delayMsg"]
        return msg

    async def poll_until_status(self, msg_id: str, status: int) -> None:
        """Waits until the message has the status. Empty long polls pace the loop; the test's timeout ends the wait."""
        while (await self.get(msg_id))["status"] != status:
            assert await self.poll(wait_ms=100) == []

    async def info(self) -> Msg:
        answer = await self._client.get("/camellia/delayQueue/getTopicInfo", params={"topic": self.name})
        info: Msg = answer.json()["data"]
        return info

    async def listed(self) -> list[str]:
        """Returns the topics that the list of topics and the monitor show, if they agree."""
        infos = (await self._client.get("/camellia/delayQueue/getTopicInfoList")).json()["data"]
        shown = (await self._client.get("/camellia/delayQueue/getMonitorString")).json()["topicInfoStats"]
        names = [info["topic"] for info in infos]
        assert names == [one["topic"] for one in shown]
        return names


@pytest_asyncio.fixture
async def topic(bridge_url: str) -> AsyncIterator[Topic]:
    async with httpx2.AsyncClient(base_url=bridge_url) as client:
        yield Topic(client)


async def test_a_message_is_sent_pulled_acked_and_read(topic: Topic) -> None:
    sent = await topic.send("你好", msgId="m-1", ttlMillis=60_000, maxRetry=3)
    assert sent == {
        **sent,
        "topic": topic.name,
        "msgId": "m-1",
        "msg": "你好",
        "triggerTime": sent["produceTime"],
        "expireTime": sent["triggerTime"] + 60_000,
        "maxRetry": 3,
        "retry": 0,
    }
    assert await topic.poll_one() == {**sent, "retry": 1, "status": 3}
    assert (await topic.get("m-1"))["status"] == 3
    assert await topic.code("ackMsg", "m-1", ack="true") == 200
    assert await topic.get("m-1") == {**sent, "retry": 1, "status": 4}
    assert await topic.poll(wait_ms=300) == []


async def test_a_message_is_held_until_it_is_due(topic: Topic) -> None:
    far = await topic.send(delay_ms=MANY_MINUTES_MS)
    assert (await topic.call("pullMsg"))["delayMsgList"] == []
    assert (await topic.get(far["msgId"]))["status"] == 1
    sent = await topic.send(delay_ms=1_500)
    assert (sent["triggerTime"], sent["status"]) == (sent["produceTime"] + 1_500, 1)
    pulled = await topic.poll_one()
    assert time.time() * 1_000 >= sent["triggerTime"]
    assert pulled == {**sent, "retry": 1, "status": 3}


async def test_a_message_is_redelivered_after_its_lease(topic: Topic) -> None:
    await topic.send()
    first = await topic.poll_one(ackTimeoutMillis=400)
    second = await topic.poll_one(ackTimeoutMillis=MANY_MINUTES_MS)
    assert second == {**first, "retry": 2}
    assert await topic.code("ackMsg", first["msgId"]) == 200
    assert (await topic.get(first["msgId"]))["status"] == 4


async def test_a_message_without_retries_left_has_status_6(topic: Topic) -> None:
    sent = await topic.send(maxRetry=1)
    for retry in (1, 2):
        assert (await topic.poll_one(ackTimeoutMillis=300))["retry"] == retry
    await topic.poll_until_status(sent["msgId"], 6)
    assert await topic.code("deleteMsg", sent["msgId"]) == 404


async def test_an_unpulled_message_expires(topic: Topic) -> None:
    sent = await topic.send(delay_ms=200, ttlMillis=200)
    while (await topic.get(sent["msgId"]))["status"] != 5:
        # A long poll of this topic would pull the message, so the test waits on another topic.
        await topic.call("longPollingMsg", topic=f"{topic.name}.none", longPollingTimeoutMillis=100)
    assert await topic.poll(wait_ms=100) == []


async def test_a_message_may_have_the_longest_ttl(topic: Topic) -> None:
    await topic.send(delay_ms=200, ttlMillis=(1 << 63) - 1)
    assert (await topic.poll_one())["expireTime"] > time.time() * 1_000


async def test_a_deleted_message_is_not_delivered_and_a_second_delete_is_code_404(topic: Topic) -> None:
    sent = await topic.send(delay_ms=500)
    assert await topic.code("deleteMsg", sent["msgId"]) == 200
    assert await topic.code("deleteMsg", sent["msgId"]) == 404
    assert await topic.get(sent["msgId"]) == {**sent, "status": 7}
    assert await topic.poll(wait_ms=1_500) == []


async def test_a_deleted_and_released_message_is_code_404(topic: Topic) -> None:
    sent = await topic.send(delay_ms=MANY_MINUTES_MS)
    assert await topic.code("deleteMsg", sent["msgId"], release="true") == 200
    assert await topic.code("getMsg", sent["msgId"]) == 404


async def test_an_unknown_message_is_code_404_but_its_ack_succeeds(topic: Topic) -> None:
    codes = {call: await topic.code(call, "unknown") for call in ("getMsg", "deleteMsg", "ackMsg")}
    assert codes == {"getMsg": 404, "deleteMsg": 404, "ackMsg": 200}
    assert await topic.code("ackMsg", "unknown", ack="false") == 200


async def test_an_empty_message_is_refused(topic: Topic) -> None:
    answer = await topic.call("sendMsg", msg="", delayMillis=0)
    reason = "msg: must have 1 to 1048576 bytes (given: 0, limit: 1048576)"
    assert answer == {"code": 400, "msg": reason, "delayMsg": None}


@pytest.mark.parametrize(
    "name", ["order:close", "订单", "a/b/c", "x" * 150], ids=["colon", "Chinese", "slashes", "long"]
)
async def test_names_of_any_text_are_taken_and_shown(topic: Topic, name: str) -> None:
    topic.name = f"{name} {topic.name}"
    sent = await topic.send(msgId="订单/1")
    assert (sent["topic"], sent["msgId"]) == (topic.name, "订单/1")
    assert await topic.poll_one() == {**sent, "retry": 1, "status": 3}
    assert (await topic.info())["topic"] == topic.name
    assert topic.name in await topic.listed()
    assert await topic.code("ackMsg", "订单/1") == 200
    assert await topic.get("订单/1") == {**sent, "retry": 1, "status": 4}
    second = await topic.send(delay_ms=MANY_MINUTES_MS, msgId="订单/1")
    assert await topic.code("deleteMsg", "订单/1") == 200
    assert await topic.get("订单/1") == {**second, "status": 7}


async def test_a_second_send_of_an_id_returns_the_first_message_until_it_ends(topic: Topic) -> None:
    first = await topic.send("first", delay_ms=300, msgId="m-1")
    second = await topic.send("second", delay_ms=0, msgId="m-1")
    assert second == {**first, "status": second["status"]}
    assert second["status"] in (1, 2)  # it may be ready by now
    assert (await topic.poll_one())["msg"] == "first"
    assert await topic.code("ackMsg", "m-1") == 200
    # The first message has ended, so the id is free.
    assert (await topic.send("third", msgId="m-1"))["msg"] == "third"
    assert (await topic.poll_one())["msg"] == "third"


async def test_a_batch_holds_no_message_twice(topic: Topic) -> None:
    await asyncio.gather(*(topic.send(str(number), msgId=f"m-{number}") for number in range(20)))
    pulled: list[Msg] = []
    while len(pulled) < 20:
        pulled += await topic.poll(batch=20)
    assert sorted(int(msg["msg"]) for msg in pulled) == list(range(20))
    assert await topic.poll(wait_ms=300, batch=20) == []


async def test_a_long_poll_ends_when_a_message_becomes_ready(topic: Topic) -> None:
    polling = asyncio.create_task(topic.poll(wait_ms=50_000))
    assert (await topic.call("pullMsg"))["delayMsgList"] == []
    sent = await topic.send(delay_ms=300)
    assert [msg["msgId"] for msg in await polling] == [sent["msgId"]]


async def test_a_disconnected_long_poll_takes_no_message(topic: Topic) -> None:
    with pytest.raises(httpx2.ReadTimeout):
        await topic.poll(patience_s=0.2)
    await topic.send(delay_ms=300)
    assert (await topic.poll_one())["retry"] == 1


@pytest.mark.parametrize("before_poll", [True, False])
async def test_ack_false_makes_a_message_ready_at_once(topic: Topic, before_poll: bool) -> None:
    await topic.send()
    first = await topic.poll_one(ackTimeoutMillis=MANY_MINUTES_MS)
    polling = None if before_poll else asyncio.create_task(topic.poll_one())
    assert await topic.code("ackMsg", first["msgId"], ack="false") == 200
    second = await (polling or topic.poll_one())
    assert (second["msgId"], second["retry"], second["status"]) == (first["msgId"], 2, 3)


async def test_ack_false_does_not_make_a_waiting_message_ready(topic: Topic) -> None:
    sent = await topic.send(delay_ms=MANY_MINUTES_MS)
    assert await topic.code("ackMsg", sent["msgId"], ack="false") == 200
    assert await topic.poll(wait_ms=300) == []
    assert await topic.get(sent["msgId"]) == sent


async def test_topic_info_shows_the_sizes_of_a_topic(topic: Topic) -> None:
    assert (await topic.info())["waitingQueueSize"] == 0
    await topic.send()
    await topic.poll_one(ackTimeoutMillis=MANY_MINUTES_MS)
    await topic.send()
    for delay_ms in (30_000, 300_000, 2 * 86_400_000):
        await topic.send(delay_ms=delay_ms)
    info = await topic.info()
    assert {name: size for name, size in info.items() if name.endswith("Size")} == {
        "waitingQueueSize": 3,
        "readyQueueSize": 1,
        "ackQueueSize": 1,
    }
    assert {name: size for name, size in info["waitingQueueInfo"].items() if size} == {
        "sizeOf0To1min": 1,
        "sizeOf1minTo10min": 1,
        "sizeOf1dayTo7day": 1,
    }


async def test_the_documented_script_prints_the_life_of_an_order(topic: Topic, bridge_url: str) -> None:
    printed = await lines_of("camellia.sh", CAMELLIA_API=bridge_url, TOPIC=topic.name)
    sent, waiting, first, again, refused, last, acked, ended, _, deleted, nothing = printed
    assert (sent["delayMsg"], waiting["delayMsg"]["status"]) == (waiting["delayMsg"], 1)
    pulls = [pull["delayMsgList"][0] for pull in (first, again, last)]
    assert [(msg["msgId"], msg["msg"], msg["retry"]) for msg in pulls] == [
        ("1001", '{"order": 1001}', retry) for retry in (1, 2, 3)
    ]
    assert [answer["code"] for answer in (refused, acked, deleted)] == [200, 200, 200]
    assert ended["delayMsg"]["status"] == 4
    assert nothing["delayMsgList"] == []
