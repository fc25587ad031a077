"""Tests topic sizes, the monitor and health on camellia's wire."""

from __future__ import annotations

import json

import httpx2
import pytest
import pytest_asyncio

from tests.wires.camellia.asking import NONE_PULLED, Clock, post
from tests.wires.camellia_service import BORN_MS, StandIn, message, topic_info


class TestTopicInfo:
    SIZES = {  # noqa: RUF012
        "sizeOf0To1min": 3,
        "sizeOf1minTo10min": 2,
        "sizeOf10minTo30min": 3,
        "sizeOf30minTo1hour": 4,
        "sizeOf1hourTo6hour": 5,
        "sizeOf6hourTo1day": 6,
        "sizeOf1dayTo7day": 7,
        "sizeOf7dayTo30day": 8,
        "sizeOf30dayToInfinite": 9,
    }
    ORDERS = {  # noqa: RUF012
        "topic": "orders",
        "waitingQueueSize": 47,
        "waitingQueueInfo": SIZES,
        "readyQueueSize": 2,
        "ackQueueSize": 3,
    }

    async def test_topic_info_shows_the_sizes(self, client: httpx2.AsyncClient, service: StandIn) -> None:
        service.known_topics = [topic_info("orders")]
        answer = await client.get("/delayQueue/getTopicInfo", params={"topic": "orders"})
        assert answer.json() == {"code": 200, "data": self.ORDERS}
        assert sum(self.SIZES.values()) == self.ORDERS["waitingQueueSize"]

    @pytest.mark.parametrize("topic", ["unknown", "a b", ""])
    async def test_topic_info_of_an_unknown_topic_is_zeros(self, client: httpx2.AsyncClient, topic: str) -> None:
        answer = await client.get("/delayQueue/getTopicInfo", params={"topic": topic})
        assert answer.json()["data"] == {
            "topic": topic,
            "waitingQueueSize": 0,
            "waitingQueueInfo": dict.fromkeys(self.SIZES, 0),
            "readyQueueSize": 0,
            "ackQueueSize": 0,
        }

    async def test_topic_info_requires_a_topic(self, client: httpx2.AsyncClient) -> None:
        assert (await client.get("/delayQueue/getTopicInfo")).status_code == 400

    async def test_topic_info_list_shows_all_topics(self, client: httpx2.AsyncClient, service: StandIn) -> None:
        service.known_topics = [topic_info("orders"), topic_info("mails")]
        answer = await client.get("/delayQueue/getTopicInfoList")
        assert answer.json() == {"code": 200, "data": [self.ORDERS, {**self.ORDERS, "topic": "mails"}]}


class TestMonitor:
    COUNTS = {  # noqa: RUF012
        "topic": "orders",
        "sendMsg": 2,
        "pullMsg": 2,
        "deleteMsg": 1,
        "ackMsg": 1,
        "getMsg": 1,
        "triggerMsgReady": 0,
        "triggerMsgEndLife": 0,
        "triggerMsgTimeout": 0,
    }
    PULL_GAP = {"topic": "orders", "count": 2, "avg": 15.0, "max": 20}  # noqa: RUF012
    READY_GAP = {"topic": "orders", "count": 0, "avg": 1.5, "max": 4}  # noqa: RUF012

    @pytest_asyncio.fixture
    async def used(self, client: httpx2.AsyncClient, service: StandIn) -> httpx2.AsyncClient:
        """A client whose wire has handled a few requests in its first minute."""
        service.known_topics = [
            topic_info("mails"),
            topic_info("orders", lateness_ms={"p50": 1.5, "p90": 2, "p99": 3, "max": 3.8}),
        ]
        due_ms = BORN_MS + 5_000
        service.live["m-1"] = message()
        service.pulls = [[message(lease_until_ms=due_ms + late_ms + 30_000) for late_ms in (10, 20)]]
        for _ in range(2):
            await post(client, "sendMsg", topic="orders", msg="abc", delayMillis=0)
        await post(client, "sendMsg", topic="orders", msg="", delayMillis=0)
        for call in ("pullMsg", "pullMsg", "ackMsg", "deleteMsg", "getMsg"):
            await post(client, call, topic="orders", msgId="m-1", batch=2)
        await post(client, "getMsg", topic="orders", msgId="unknown")
        return client

    async def test_the_current_minute_is_not_reported(self, used: httpx2.AsyncClient, clock: Clock) -> None:
        clock.now_s = 59.9
        data = (await used.get("/delayQueue/getMonitorData")).json()["data"]
        assert data == {
            "requestStatsList": [],
            "pullMsgTimeGapStatsList": [],
            "readyQueueTimeGapStatsList": [self.READY_GAP],
        }

    async def test_the_last_full_minute_is_reported(self, used: httpx2.AsyncClient, clock: Clock) -> None:
        clock.now_s = 60
        await post(used, "sendMsg", topic="mails", msg="abc", delayMillis=0)
        clock.now_s = 119
        assert (await used.get("/delayQueue/getMonitorData")).json() == {
            "code": 200,
            "data": {
                "requestStatsList": [self.COUNTS],
                "pullMsgTimeGapStatsList": [self.PULL_GAP],
                "readyQueueTimeGapStatsList": [self.READY_GAP],
            },
        }

    async def test_a_minute_without_requests_is_reported_empty(self, used: httpx2.AsyncClient, clock: Clock) -> None:
        clock.now_s = 120
        assert (await used.get("/delayQueue/getMonitorData")).json()["data"]["requestStatsList"] == []

    async def test_monitor_string_is_one_flat_document(self, used: httpx2.AsyncClient, clock: Clock) -> None:
        clock.now_s = 60
        answer = await used.get("/delayQueue/getMonitorString")
        assert answer.headers["content-type"] == "text/plain;charset=UTF-8"
        sizes = {"waitingQueueSize": 47, "ackQueueSize": 3, "readyQueueSize": 2}
        assert json.loads(answer.text) == {
            "requestStats": [self.COUNTS],
            "pullMsgTimeGapStats": [self.PULL_GAP],
            "readyQueueTimeGapStats": [self.READY_GAP],
            "topicInfoStats": [{"topic": topic, **sizes} for topic in ("mails", "orders")],
            "waitingQueueStats": [{**TestTopicInfo.SIZES, "topic": topic} for topic in ("mails", "orders")],
        }


class TestHealth:
    @pytest.mark.parametrize("verb", ["GET", "POST", "PUT", "PATCH", "DELETE"])
    @pytest.mark.parametrize("name", ["status", "check", "online"])
    async def test_an_online_process_answers_200(self, client: httpx2.AsyncClient, verb: str, name: str) -> None:
        answer = await client.request(verb, f"/health/{name}")
        assert (answer.status_code, answer.text) == (200, '{"code":200}')

    async def test_offline_is_500_until_the_process_is_idle_for_20_seconds(
        self, client: httpx2.AsyncClient, clock: Clock
    ) -> None:
        clock.now_s = 15
        await post(client, "getMsg", topic="orders", msgId="m-1")
        clock.now_s = 35
        answer = await client.get("/health/offline")
        assert (answer.status_code, answer.text) == (500, '{"code":500}')
        await client.get("/delayQueue/getTopicInfoList")
        clock.now_s = 35.1
        assert (await client.get("/health/offline")).status_code == 200

    async def test_offline_changes_only_the_status(self, client: httpx2.AsyncClient, service: StandIn) -> None:
        await client.get("/health/offline")
        answer = await client.get("/health/status")
        assert (answer.status_code, answer.json()) == (500, {"code": 500})
        assert (await client.get("/health/check")).status_code == 200
        assert await post(client, "pullMsg", topic="orders") == NONE_PULLED
        await client.get("/health/online")
        assert (await client.get("/health/status")).status_code == 200
        assert [(action.what, action.who) for action in service.actions.recorded] == [
            ("camellia_offline", "anybody"),
            ("camellia_online", "anybody"),
        ]
