"""Tests sends on camellia's wire: literal requests and answers."""

from __future__ import annotations

import re

import httpx2
import pytest

from bridge.model.message import Envelope, valid_id, valid_topic
from bridge.model.values import Draft
from tests.wires.camellia.asking import ABC, SUCCESS, post
from tests.wires.camellia_service import StandIn, message


class TestSend:
    async def test_send_returns_the_message(self, client: httpx2.AsyncClient, service: StandIn) -> None:
        service.live["m-1"] = message()
        answer = await post(client, "sendMsg", topic="orders", msgId="m-1", msg="abc", delayMillis=5000)
        assert answer == {**SUCCESS, "delayMsg": ABC}
        assert list(answer) == ["code", "msg", "delayMsg"]
        assert list(answer["delayMsg"]) == list(ABC)

    async def test_send_uses_the_given_parameters(self, client: httpx2.AsyncClient, service: StandIn) -> None:
        await post(
            client, "sendMsg", topic="a/b", msgId="m-1", msg="你好", delayMillis=5000, ttlMillis=60000, maxRetry=0
        )
        assert service.asked == [
            (
                "send",
                Draft(
                    topic="a/b",
                    envelope=Envelope(content_type="text/plain; charset=utf-8", body="你好".encode()),
                    id="m-1",
                    delay_ms=5_000,
                    ttl_ms=60_000,
                    max_retry=0,
                    of_wire=True,
                ),
            )
        ]

    async def test_missing_parameters_have_their_defaults(self, client: httpx2.AsyncClient, service: StandIn) -> None:
        await post(client, "sendMsg", topic="orders", msg="abc", delayMillis=0)
        await post(client, "sendMsg", topic="orders", msg="abc", delayMillis=-5, ttlMillis=0, maxRetry=-1)
        await post(client, "sendMsg", topic="orders", msg="abc", delayMillis=0, ttlMillis="", maxRetry="")
        drafts = [draft for _, draft in service.asked]
        assert [(draft.delay_ms, draft.ttl_ms, draft.max_retry) for draft in drafts] == [(0, 3_600_000, 10)] * 3
        assert all(re.fullmatch(r"[0-9a-f]{32}", draft.id) for draft in drafts)
        assert len({draft.id for draft in drafts}) == 3

    async def test_a_delay_of_1_to_100_ms_is_kept(self, client: httpx2.AsyncClient, service: StandIn) -> None:
        await post(client, "sendMsg", topic="orders", msg="abc", delayMillis=100)
        assert service.asked[0][1].delay_ms == 100

    async def test_a_ttl_is_at_most_100_years(self, client: httpx2.AsyncClient, service: StandIn) -> None:
        await post(client, "sendMsg", topic="orders", msg="abc", delayMillis=0, ttlMillis=(1 << 63) - 1)
        assert service.asked[0][1].ttl_ms == 100 * 365 * 86_400_000

    async def test_a_second_send_of_a_living_id_returns_the_first_message(
        self, client: httpx2.AsyncClient, service: StandIn
    ) -> None:
        service.live["m-1"] = message()
        answer = await post(client, "sendMsg", topic="orders", msgId="m-1", msg="other", delayMillis=9)
        assert answer == {**SUCCESS, "delayMsg": ABC}

    @pytest.mark.parametrize(
        ("wrong", "reason"),
        [
            ({"topic": ""}, "topic: must not be empty (given: '', limit: 1000)"),
            (
                {"topic": "题" * 334},
                f"topic: has 1002 bytes and must have at most 1000 (given: {'题' * 200!r}, limit: 1000)",
            ),
            ({"msg": ""}, "msg: must have 1 to 1048576 bytes (given: 0, limit: 1048576)"),
            (
                {"msg": "x" * (1024 * 1024 + 1)},
                "msg: must have 1 to 1048576 bytes (given: 1048577, limit: 1048576)",
            ),
            ({"msgId": ""}, "msgId: must not be empty (given: '', limit: 1000)"),
            (
                {"delayMillis": str(3_000 * 86_400_000)},
                "delayMillis: is 172886400000 ms beyond the longest delay of 999 days "
                "(given: 259200000000, limit: 86313600000)",
            ),
        ],
        ids=["topic", "long topic", "msg", "long msg", "msgId", "delay"],
    )
    async def test_an_invalid_parameter_is_code_400_with_the_reason(
        self, client: httpx2.AsyncClient, service: StandIn, wrong: dict[str, str], reason: str
    ) -> None:
        form = {"topic": "orders", "msg": "abc", "delayMillis": "0", **wrong}
        assert await post(client, "sendMsg", **form) == {"code": 400, "msg": reason, "delayMsg": None}
        assert service.asked == []
        assert service.names == {}

    @pytest.mark.parametrize(
        ("topic", "stored"),
        [
            ("a/b", "a/b"),
            ("order:close", "order-close."),
            ("订单", "-."),
            ("a/b/c", "a-b-c."),
        ],
    )
    @pytest.mark.parametrize("msg_id", ["m-1", "a/b", "é", "x" * 300])
    async def test_any_name_is_shown_as_it_was_given(
        self, client: httpx2.AsyncClient, service: StandIn, topic: str, stored: str, msg_id: str
    ) -> None:
        sent = await post(client, "sendMsg", topic=topic, msgId=msg_id, msg="abc", delayMillis=0)
        assert (sent["delayMsg"]["topic"], sent["delayMsg"]["msgId"]) == (topic, msg_id)
        draft = service.asked[0][1]
        assert valid_topic(draft.topic)
        assert valid_id(draft.id)
        assert draft.topic.startswith(stored)
        assert service.names == ({} if topic == "a/b" else {draft.topic: topic})
        service.pulls = [[message(draft.id, envelope=draft.envelope)]]
        (pulled,) = (await post(client, "pullMsg", topic=topic))["delayMsgList"]
        assert pulled["msgId"] == msg_id
