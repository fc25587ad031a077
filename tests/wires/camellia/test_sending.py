"""Tests sends on camellia's wire: literal requests and answers."""

from __future__ import annotations

import re

import httpx2
import pytest

from bridge.model.message import Envelope
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
        "wrong",
        [
            {"topic": ""},
            {"topic": "a b"},
            {"topic": "a/b/c"},
            {"topic": "主题"},
            {"msg": ""},
            {"msg": "x" * (1024 * 1024 + 1)},
            {"msgId": ""},
            {"msgId": "a/b"},
            {"msgId": "é"},
            {"msgId": "x" * 201},
        ],
        ids=str,
    )
    async def test_an_invalid_parameter_is_code_400(
        self, client: httpx2.AsyncClient, service: StandIn, wrong: dict[str, str]
    ) -> None:
        form = {"topic": "orders", "msg": "abc", "delayMillis": "0", **wrong}
        assert await post(client, "sendMsg", **form) == {"code": 400, "msg": None, "delayMsg": None}
        assert service.asked == []
