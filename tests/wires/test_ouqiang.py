"""Tests the wire of ouqiang/delay-queue over a socket: literal requests and answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import httpx2
import pytest
import pytest_asyncio

from tests.forked_bridge import ForkedBridge
from tests.wires.jobs import Caller, exchange_with_expect

DONE = '{"code":0,"message":"操作成功","data":null}'
NO_ID, NO_TOPIC = "job id不能为空", "topic 不能为空"
DELAY, TTR, BROKEN = "delay 取值范围1 - (2^31 - 1)", "ttr 取值范围1 - 86400", "解析json失败"


@pytest_asyncio.fixture
async def wire(bridge: ForkedBridge) -> AsyncIterator[Caller]:
    async with httpx2.AsyncClient(base_url=bridge.url, timeout=90) as client:
        yield Caller(bridge.port, client)


async def test_a_job_is_answered_byte_for_byte(wire: Caller) -> None:
    push = f'{{"topic":"{wire.name}.a","id":"{wire.name}","delay":1,"ttr":120,"body":"{{\\"uid\\":10829378}}"}}'
    pushed = await wire.raw("POST /push", push)
    assert (pushed.status, pushed.reason) == (200, "OK")
    assert pushed.headers["content-type"] == "text/plain; charset=utf-8"
    assert pushed.headers["content-length"] == str(len(pushed.body))
    assert pushed.text == '{"code":0,"message":"添加成功","data":null}'
    popped = await wire.raw("POST /pop", f'{{"topic":"{wire.name}.a"}}')
    assert (
        popped.text
        == f'{{"code":0,"message":"操作成功","data":{{"id":"{wire.name}","body":"{{\\"uid\\":10829378}}"}}}}'
    )
    looked = await wire.raw("POST /get", f'{{"id":"{wire.name}"}}')
    due_s = looked.json["data"]["delay"]
    assert looked.text == (
        f'{{"code":0,"message":"操作成功","data":{{"topic":"{wire.name}.a","id":"{wire.name}","delay":{due_s},'
        f'"ttr":120,"body":"{{\\"uid\\":10829378}}"}}}}'
    )
    for path in ("/finish", "/finish", "/delete", "/get"):
        assert (await wire.raw(f"POST {path}", f'{{"id":"{wire.name}"}}')).text == DONE


@pytest.mark.parametrize(
    ("path", "body", "message"),
    [
        *[
            (path, body, BROKEN)
            for path in ("/push", "/pop", "/finish", "/delete", "/get")
            for body in (
                "",
                "{",
                "[]",
                '"x"',
                "1",
                "{'id':'1'}",
                '{"id":"1"} x',
                '{"id":"1",}',
                '{"id":NaN}',
                "\ufeff{}",
            )
        ],
        *[
            (path, body, NO_ID)
            for path in ("/finish", "/delete", "/get")
            for body in ("{}", "null", '{"id":" \\u3000\\n"}')
        ],
        ("/finish", '{"id":7}', BROKEN),
        ("/push", "{}", NO_ID),
        ("/push", '{"id":null,"topic":"t","delay":1,"ttr":1}', NO_ID),
        ("/push", '{"id":"1","delay":1,"ttr":1}', NO_TOPIC),
        ("/push", '{"id":"1","topic":"\\t","delay":0,"ttr":0}', NO_TOPIC),
        ("/push", '{"id":"1","topic":"t","ttr":0}', DELAY),
        ("/push", '{"id":"1","topic":"t","delay":0,"ttr":1}', DELAY),
        ("/push", '{"id":"1","topic":"t","delay":-1,"ttr":1}', DELAY),
        ("/push", '{"id":"1","topic":"t","delay":2147483649,"ttr":1}', DELAY),
        ("/push", '{"id":"1","topic":"t","delay":1}', TTR),
        ("/push", '{"id":"1","topic":"t","delay":1,"ttr":0}', TTR),
        ("/push", '{"id":"1","topic":"t","delay":1,"ttr":-3}', TTR),
        ("/push", '{"id":"1","topic":"t","delay":1,"ttr":86401}', TTR),
        *[
            ("/push", f'{{"id":"1","topic":"t","delay":{delay},"ttr":1}}', BROKEN)
            for delay in ('"1"', "1.0", "1e0", "+1", "01", "9223372036854775808", "true", "[1]", "1 1")
        ],
        ("/push", '{"id":"1","topic":"t","delay":1,"ttr":1,"body":{"a":1}}', BROKEN),
        ("/push", '{"id":"1","topic":"t","delay":1,"ttr":1,"body":"a\nb"}', BROKEN),
        ("/pop", "{}", "topic不能为空"),
        ("/pop", '{"topic":" , ,"}', "topic不能为空"),
        ("/pop", '{"topic":["a"]}', BROKEN),
    ],
)
async def test_an_invalid_request_is_refused_with_the_originals_text(
    wire: Caller, path: str, body: str, message: str
) -> None:
    answer = await wire.raw(f"POST {path}", body)
    assert answer.status == 200
    assert answer.text == f'{{"code":1,"message":"{message}","data":null}}'


@pytest.mark.parametrize("verb", ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
async def test_any_verb_is_accepted(wire: Caller, verb: str) -> None:
    assert (await wire.raw(f"{verb} /finish", '{"id":"nobody"}')).text == DONE
    assert (await wire.raw(f"{verb} /get", '{"id":"nobody"}')).text == DONE


@pytest.mark.parametrize(
    "content_type", ["", "application/x-www-form-urlencoded", "multipart/form-data; boundary=b", "text/xml", "nonsense"]
)
async def test_the_content_type_is_ignored(wire: Caller, content_type: str) -> None:
    answer = await wire.raw("POST /finish", '{"id":"a=b&c=d"}', {"Content-Type": content_type})
    assert answer.text == DONE


async def test_expect_100_continue_is_answered(wire: Caller) -> None:
    interim, answer = await exchange_with_expect(wire.port, "/get", b'{"id":"nobody"}')
    assert interim.startswith(b"HTTP/1.1 100 Continue\r\n")
    assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
    assert answer.endswith(DONE.encode())


async def test_members_match_in_any_case_and_the_last_counts(wire: Caller) -> None:
    push = (
        f'{{"Topic":"{wire.name}.a","ID":"x","id":" {wire.name}\\n","DELAY":5,"dElAy":1,"delay":null,"ttr":60,'
        '"unknown":{"id":[1.5,{}]},"Body":"  \\ud83d\\ude00 \\ud800 <&>  "}'
    )
    assert (await wire.raw("POST /push", push)).json["code"] == 0
    popped = await wire.raw("POST /pop", f'{{"topic":" {wire.name}.b , {wire.name}.a "}}')
    assert popped.json["data"] == {"id": wire.name, "body": "😀 \ufffd <&>"}
    assert b"\\u003c\\u0026\\u003e" in popped.body


async def test_any_text_may_be_a_topic_or_an_id(wire: Caller) -> None:
    topic, job_id = f"订单 {wire.name}:a/b/c", f"单号/{wire.name}?" + "長" * 200
    assert (await wire.post("/push", topic=topic, id=job_id, delay=1, ttr=60, body="x"))["code"] == 0
    assert (await wire.post("/pop", topic=topic))["data"] == {"id": job_id, "body": "x"}
    looked = (await wire.post("/get", id=job_id))["data"]
    assert (looked["topic"], looked["id"]) == (topic, job_id)
    await wire.post("/finish", id=job_id)
    assert (await wire.post("/get", id=job_id))["data"] is None


@pytest.mark.parametrize(
    ("member", "value"),
    [("body", "x" * (1024 * 1024 + 1)), ("topic", "t" * 1_001), ("id", "i" * 1_001), ("delay", 86_313_601)],
)
async def test_a_value_over_the_bridges_limit_is_refused_and_named(wire: Caller, member: str, value: object) -> None:
    job = {"topic": f"{wire.name}.a", "id": wire.name, "delay": 1, "ttr": 1, "body": ""}
    answer = await wire.post("/push", **{**job, member: value})
    assert (answer["code"], answer["message"].partition(":")[0], answer["data"]) == (1, member, None)


async def test_values_at_the_limits_are_accepted(wire: Caller) -> None:
    answer = await wire.post(
        "/push", topic=f"{wire.name}.a", id=wire.name, delay=86_313_600, ttr=86_400, body="x" * 1024 * 1024
    )
    assert answer == {"code": 0, "message": "添加成功", "data": None}


async def test_a_chunked_body_is_read(wire: Caller) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", wire.port)
    writer.write(b"POST /get HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n")
    writer.write(b'3\r\n{"i\r\n8\r\nd":"nobo\r\n4\r\ndy"}\r\n0\r\n\r\n')
    assert (await reader.read()).endswith(DONE.encode())
    writer.close()
