"""Tests look-ups and deletes on camellia's wire, and answers while a server is away."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest

from bridge.model.errors import StoreUnavailable
from bridge.model.message import Envelope, State
from tests.wires.camellia.asking import ABC, SUCCESS, post
from tests.wires.camellia_service import StandIn, message


class TestGet:
    async def test_get_returns_the_message(self, client: httpx2.AsyncClient, service: StandIn) -> None:
        service.live["m-1"] = message()
        assert await post(client, "getMsg", topic="orders", msgId="m-1") == {**SUCCESS, "delayMsg": ABC}

    async def test_get_of_an_unknown_message_is_code_404(self, client: httpx2.AsyncClient) -> None:
        answer = await post(client, "getMsg", topic="orders", msgId="m-1")
        assert answer == {"code": 404, "msg": None, "delayMsg": None}

    @pytest.mark.parametrize(
        ("state", "status"),
        [
            (State.WAITING, 1),
            (State.READY, 2),
            (State.LEASED, 3),
            (State.ACKED, 4),
            (State.EXPIRED, 5),
            (State.DEAD, 6),
            (State.DELETED, 7),
        ],
    )
    async def test_each_state_has_its_status(
        self, client: httpx2.AsyncClient, service: StandIn, state: State, status: int
    ) -> None:
        service.live["m-1"] = message(state=state)
        answer = await post(client, "getMsg", topic="orders", msgId="m-1")
        assert answer["delayMsg"]["status"] == status

    async def test_another_wires_body_is_shown_as_text(self, client: httpx2.AsyncClient, service: StandIn) -> None:
        service.live["m-1"] = message(expires_ms=0, envelope=Envelope(body=b'{"order":1}'))
        answer = await post(client, "getMsg", topic="orders", msgId="m-1")
        assert (answer["delayMsg"]["msg"], answer["delayMsg"]["expireTime"]) == ('{"order":1}', (1 << 63) - 1)

    @pytest.mark.parametrize("envelope", [None, Envelope()])
    async def test_a_body_that_was_not_kept_is_null(
        self, client: httpx2.AsyncClient, service: StandIn, envelope: Envelope | None
    ) -> None:
        service.live["m-1"] = message(envelope=envelope)
        assert (await post(client, "getMsg", topic="orders", msgId="m-1"))["delayMsg"]["msg"] is None


class TestDelete:
    @pytest.mark.parametrize(("form", "release"), [({}, False), ({"release": "true"}, True)])
    async def test_delete_passes_release_to_the_service(
        self, client: httpx2.AsyncClient, service: StandIn, form: dict[str, str], release: bool
    ) -> None:
        service.live["m-1"] = message()
        assert await post(client, "deleteMsg", topic="orders", msgId="m-1", **form) == SUCCESS
        assert service.asked == [("get", ("orders", "m-1")), ("delete", ("orders", "m-1", release))]

    async def test_delete_of_an_unknown_message_is_code_404(self, client: httpx2.AsyncClient) -> None:
        assert await post(client, "deleteMsg", topic="orders", msgId="m-1") == {"code": 404, "msg": None}

    @pytest.mark.parametrize("state", [State.ACKED, State.EXPIRED, State.DEAD, State.DELETED])
    async def test_delete_of_an_ended_message_is_code_404(
        self, client: httpx2.AsyncClient, service: StandIn, state: State
    ) -> None:
        service.live["m-1"] = message(state=state)
        assert await post(client, "deleteMsg", topic="orders", msgId="m-1") == {"code": 404, "msg": None}
        assert service.asked == [("get", ("orders", "m-1"))]


class TestUnavailable:
    @pytest.mark.parametrize(
        ("call", "answer"),
        [
            ("sendMsg", {"code": 500, "msg": None, "delayMsg": None}),
            ("pullMsg", {"code": 500, "msg": None, "delayMsgList": None}),
            ("longPollingMsg", {"code": 500}),
            ("ackMsg", {"code": 500, "msg": None}),
            ("deleteMsg", {"code": 500, "msg": None}),
            ("getMsg", {"code": 500, "msg": None, "delayMsg": None}),
        ],
    )
    async def test_an_unavailable_server_is_code_500(
        self, client: httpx2.AsyncClient, service: StandIn, call: str, answer: dict[str, Any]
    ) -> None:
        service.error = StoreUnavailable("Redis is away")
        service.pulls = [service.error]
        assert await post(client, call, topic="orders", msgId="m-1", msg="abc", delayMillis=0) == answer
