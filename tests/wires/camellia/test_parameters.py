"""Tests how camellia's wire reads parameters, and how it refuses them."""

from __future__ import annotations

import re
import threading
from typing import Any

import httpx2
import pytest

from bridge.http.wires.camellia import spring
from bridge.http.wires.digested_names import topic_of
from tests.wires.camellia.asking import SUCCESS, post
from tests.wires.camellia_service import StandIn


class TestParameters:
    async def test_parameters_may_come_as_a_form(self, client: httpx2.AsyncClient, service: StandIn) -> None:
        answer = await client.post(
            "/delayQueue/sendMsg",
            content="topic=orders&msg=%E4%BD%A0+%26&delayMillis=5000",
            headers={"content-type": "application/x-www-form-urlencoded; charset=utf-8"},
        )
        assert answer.json()["delayMsg"]["msg"] == "你 &"

    async def test_unescaped_bytes_are_read_as_utf_8(self, client: httpx2.AsyncClient) -> None:
        answer = await client.post(
            "/delayQueue/sendMsg",
            content="topic=orders&msg=你&delayMillis=5000".encode(),
            headers={"content-type": "application/x-www-form-urlencoded"},
        )
        assert answer.json()["delayMsg"]["msg"] == "你"

    async def test_parameters_may_come_in_the_query_string(self, client: httpx2.AsyncClient, service: StandIn) -> None:
        answer = await client.post("/delayQueue/sendMsg?topic=orders&msg=abc&msgId=m-1&delayMillis=5000")
        assert answer.json()["code"] == 200
        assert service.asked[0][1].id == "m-1"

    async def test_parameters_may_come_as_a_multipart_form(self, client: httpx2.AsyncClient, service: StandIn) -> None:
        fields = {name: (None, value) for name, value in {"topic": "orders", "msgId": "m-1"}.items()}
        assert (await client.post("/delayQueue/ackMsg", files=fields)).json() == SUCCESS

    async def test_a_malformed_multipart_form_is_a_bad_request(self, client: httpx2.AsyncClient) -> None:
        for content_type in ("multipart/form-data", "multipart/form-data; boundary=b"):
            answer = await client.post("/delayQueue/ackMsg", content=b"--c", headers={"content-type": content_type})
            assert answer.status_code == 400

    async def test_query_string_values_precede_form_values(self, client: httpx2.AsyncClient, service: StandIn) -> None:
        await client.post("/delayQueue/pullMsg?topic=a&batch=2", data={"topic": "b", "batch": "3"})
        await client.post("/delayQueue/pullMsg?batch=2", data={"topic": "b", "batch": "3"})
        # Spring joins the values of one name by commas.
        assert [given[:2] for _, given in service.asked] == [([topic_of("a,b")], 2), (["b"], 2)]

    @pytest.mark.parametrize("multipart", [False, True])
    async def test_a_large_form_is_parsed_in_a_thread(
        self, client: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch, multipart: bool
    ) -> None:
        threads: list[str] = []
        name = "_parts" if multipart else "_unquote"
        parse = getattr(spring, name)

        def noted(*given: Any) -> Any:
            threads.append(threading.current_thread().name)
            return parse(*given)

        monkeypatch.setattr(spring, name, noted)
        for size in (10, 600_000):
            fields = {"topic": "orders", "msg": "é" * (size // 2), "delayMillis": "0"}
            parts = {name: (None, value) for name, value in fields.items()} | {"file": ("f", b"x" * 2 * size)}
            form: dict[str, Any] = {"files": parts} if multipart else {"data": fields}
            answer = await client.post("/delayQueue/sendMsg", **form)
            assert answer.json()["delayMsg"]["msg"] == fields["msg"]
        assert threads[-1].startswith("large-bodies")
        assert not threads[-2].startswith("large-bodies")

    async def test_other_content_types_contain_no_parameters(self, client: httpx2.AsyncClient) -> None:
        answer = await client.post("/delayQueue/getMsg", json={"topic": "orders", "msgId": "m-1"})
        assert answer.status_code == 400

    async def test_a_missing_parameter_gets_spring_boots_answer(
        self, client: httpx2.AsyncClient, service: StandIn
    ) -> None:
        answer = await client.post("/delayQueue/sendMsg", data={"topic": "orders", "msg": "abc"})
        assert answer.status_code == 400
        assert list(answer.json()) == ["timestamp", "status", "error", "path"]
        error = answer.json()
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+00:00", error.pop("timestamp"))
        assert error == {"status": 400, "error": "Bad Request", "path": "/camellia/delayQueue/sendMsg"}
        assert service.asked == []

    @pytest.mark.parametrize(
        ("call", "missing"),
        [
            ("sendMsg", "topic"),
            ("sendMsg", "msg"),
            ("sendMsg", "delayMillis"),
            ("pullMsg", "topic"),
            ("longPollingMsg", "topic"),
            ("ackMsg", "topic"),
            ("ackMsg", "msgId"),
            ("deleteMsg", "topic"),
            ("deleteMsg", "msgId"),
            ("getMsg", "topic"),
            ("getMsg", "msgId"),
        ],
    )
    async def test_each_required_parameter_is_required(
        self, client: httpx2.AsyncClient, call: str, missing: str
    ) -> None:
        form = {"topic": "orders", "msgId": "m-1", "msg": "abc", "delayMillis": "0"}
        del form[missing]
        assert (await client.post(f"/delayQueue/{call}", data=form)).status_code == 400

    @pytest.mark.parametrize("number", ["x", "1.5", "1e3", "", "1_0", "9223372036854775808", "--1"])
    async def test_a_malformed_number_is_a_bad_request(self, client: httpx2.AsyncClient, number: str) -> None:
        form = {"topic": "orders", "msg": "abc", "delayMillis": number}
        assert (await client.post("/delayQueue/sendMsg", data=form)).status_code == 400

    async def test_an_int_has_32_bits(self, client: httpx2.AsyncClient) -> None:
        form = {"topic": "orders", "batch": str(1 << 31)}
        assert (await client.post("/delayQueue/pullMsg", data=form)).status_code == 400

    async def test_a_number_may_have_a_sign_and_spaces(self, client: httpx2.AsyncClient, service: StandIn) -> None:
        await post(client, "sendMsg", topic="orders", msg="abc", delayMillis=" +5 ")
        assert service.asked[0][1].delay_ms == 5

    @pytest.mark.parametrize(
        ("word", "asked"),
        [(word, "ack_ids") for word in ("true", "on", "YES", "1", " true ", "")]
        + [(word, "nack") for word in ("false", "Off", "no", "0")],
    )
    async def test_each_boolean_word_has_its_value(
        self, client: httpx2.AsyncClient, service: StandIn, word: str, asked: str
    ) -> None:
        assert await post(client, "ackMsg", topic="orders", msgId="m-1", ack=word) == SUCCESS
        assert service.asked[0][0] == asked

    async def test_a_malformed_boolean_is_a_bad_request(self, client: httpx2.AsyncClient) -> None:
        form = {"topic": "orders", "msgId": "m-1", "ack": "maybe"}
        assert (await client.post("/delayQueue/ackMsg", data=form)).status_code == 400
