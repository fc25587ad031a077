"""Tests pulls, long polls and acks on camellia's wire."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI
from starlette.types import Message as AsgiMessage

from bridge.model.errors import Conflict, StoreUnavailable
from bridge.model.message import State
from bridge.model.values import MAX_DELAY_MS
from tests.wires.camellia.asking import ABC, NONE_PULLED, SUCCESS, post
from tests.wires.camellia_service import StandIn, message


class TestPull:
    async def test_pull_returns_the_messages(self, client: httpx2.AsyncClient, service: StandIn) -> None:
        first, second = message(state=State.LEASED, attempts=1), message("m-2", state=State.LEASED, attempts=2)
        service.pulls = [[first, second]]
        answer = await post(client, "pullMsg", topic="orders", batch=2, ackTimeoutMillis=1500)
        assert answer == {
            "code": 200,
            "msg": None,
            "delayMsgList": [{**ABC, "retry": 1, "status": 3}, {**ABC, "msgId": "m-2", "retry": 2, "status": 3}],
        }
        assert service.asked == [("pull", (["orders"], 2, 0, 1_500))]

    async def test_missing_parameters_have_their_defaults(self, client: httpx2.AsyncClient, service: StandIn) -> None:
        assert await post(client, "pullMsg", topic="orders") == NONE_PULLED
        assert await post(client, "pullMsg", topic="orders", batch=0, ackTimeoutMillis=0) == NONE_PULLED
        assert service.asked == [("pull", (["orders"], 1, 0, 30_000))] * 2

    async def test_a_large_batch_takes_several_pulls(self, client: httpx2.AsyncClient, service: StandIn) -> None:
        service.pulls = [[message(f"m-{at}-{number}") for number in range(100)] for at in range(10)]
        answer = await post(client, "pullMsg", topic="orders", batch=2_000)
        assert len(answer["delayMsgList"]) == 1_000
        assert [limit for _, (_, limit, _, _) in service.asked] == [100] * 10

    async def test_a_batch_ends_when_the_queue_is_empty(self, client: httpx2.AsyncClient, service: StandIn) -> None:
        service.pulls = [[message(f"m-{number}") for number in range(100)], [message("last")]]
        answer = await post(client, "pullMsg", topic="orders", batch=500)
        assert len(answer["delayMsgList"]) == 101
        assert len(service.asked) == 2

    async def test_a_failure_during_a_batch_returns_the_messages_pulled_so_far(
        self, client: httpx2.AsyncClient, service: StandIn
    ) -> None:
        service.pulls = [[message(f"m-{number}") for number in range(100)], StoreUnavailable("away")]
        answer = await post(client, "pullMsg", topic="orders", batch=101)
        assert (answer["code"], len(answer["delayMsgList"])) == (200, 100)

    async def test_a_lease_is_at_most_999_days(self, client: httpx2.AsyncClient, service: StandIn) -> None:
        await post(client, "pullMsg", topic="orders", ackTimeoutMillis=(1 << 63) - 1)
        assert service.asked[0][1][3] == MAX_DELAY_MS

    async def test_an_empty_topic_is_code_400(self, client: httpx2.AsyncClient) -> None:
        reason = "topic: must not be empty (given: '', limit: 1000)"
        assert await post(client, "pullMsg", topic="") == {"code": 400, "msg": reason, "delayMsgList": None}


class TestLongPoll:
    @pytest.mark.parametrize(("asked_ms", "wait_ms"), [(None, 10_000), (0, 10_000), (1_500, 1_500)])
    async def test_a_long_poll_waits_for_its_timeout(
        self, client: httpx2.AsyncClient, service: StandIn, asked_ms: int | None, wait_ms: int
    ) -> None:
        form = {} if asked_ms is None else {"longPollingTimeoutMillis": asked_ms}
        assert await post(client, "longPollingMsg", topic="orders", **form) == {"code": 200, "delayMsgList": []}
        assert service.asked == [("pull", (["orders"], 1, wait_ms, 30_000))]

    async def test_a_long_poll_does_not_wait_to_fill_its_batch(
        self, client: httpx2.AsyncClient, service: StandIn
    ) -> None:
        service.pulls = [[message(f"m-{number}") for number in range(100)]]
        await post(client, "longPollingMsg", topic="orders", batch=101)
        assert [(limit, wait_ms) for _, (_, limit, wait_ms, _) in service.asked] == [(100, 10_000), (1, 0)]

    async def test_a_long_polls_answer_has_sorted_keys_and_no_nulls(
        self, client: httpx2.AsyncClient, service: StandIn
    ) -> None:
        service.pulls = [[message(state=State.LEASED, attempts=1)]]
        answer = await client.post("/delayQueue/longPollingMsg", data={"topic": "orders"})
        assert answer.text == (
            '{"code":200,"delayMsgList":[{"expireTime":1700000065000,"maxRetry":3,"msg":"abc","msgId":"m-1",'
            '"produceTime":1700000000000,"retry":1,"status":3,"topic":"orders","triggerTime":1700000005000}]}'
        )

    async def test_a_long_polls_error_has_no_nulls(self, client: httpx2.AsyncClient) -> None:
        reason = "topic: must not be empty (given: '', limit: 1000)"
        assert await post(client, "longPollingMsg", topic="") == {"code": 400, "msg": reason}

    async def test_a_long_poll_ends_when_the_client_disconnects(self, app: FastAPI, service: StandIn) -> None:
        polling, ended = asyncio.Event(), asyncio.Event()

        async def pull(*_: Any, **__: Any) -> None:
            polling.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()

        async def receive() -> AsgiMessage:
            if not read:
                read.append(True)
                return {"type": "http.request", "body": b"", "more_body": False}
            await polling.wait()
            return {"type": "http.disconnect"}

        async def send(_: AsgiMessage) -> None:
            pass

        read: list[bool] = []
        service.pull = pull  # type: ignore[assignment,method-assign]
        path = "/camellia/delayQueue/longPollingMsg"
        await app(
            {"type": "http", "method": "POST", "path": path, "query_string": b"topic=orders", "headers": []},
            receive,
            send,
        )
        assert ended.is_set()


class TestAck:
    @pytest.mark.parametrize("form", [{}, {"ack": "true"}])
    async def test_ack_acknowledges_a_message_in_any_state(
        self, client: httpx2.AsyncClient, service: StandIn, form: dict[str, str]
    ) -> None:
        assert await post(client, "ackMsg", topic="orders", msgId="m-1", **form) == SUCCESS
        assert service.asked == [("ack_ids", ("orders", ["m-1"]))]

    async def test_ack_false_requeues_at_once(self, client: httpx2.AsyncClient, service: StandIn) -> None:
        assert await post(client, "ackMsg", topic="orders", msgId="m-1", ack="false") == SUCCESS
        assert service.asked == [("nack", ("orders", "m-1", None, 0, None))]

    async def test_ack_false_of_a_message_that_is_not_leased_succeeds(
        self, client: httpx2.AsyncClient, service: StandIn
    ) -> None:
        service.error = Conflict("the message is waiting", state="waiting")
        assert await post(client, "ackMsg", topic="orders", msgId="m-1", ack="false") == SUCCESS

    @pytest.mark.parametrize("empty", ["topic", "msgId"])
    async def test_an_empty_name_is_code_400(self, client: httpx2.AsyncClient, empty: str) -> None:
        names = {"topic": "orders", "msgId": "m-1", empty: ""}
        reason = f"{empty}: must not be empty (given: '', limit: 1000)"
        assert await post(client, "ackMsg", **names) == {"code": 400, "msg": reason}
