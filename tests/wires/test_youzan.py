"""Tests Youzan's wire over a socket: literal commands and answers, and the life of jobs.

No test sleeps: each waits in pops with a timeout, which end when a job is ready.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest
import pytest_asyncio

from bridge.http.app import create_app
from bridge.settings.settings import Settings
from bridge.store.messages.records import AHEAD_MS
from tests.forked_bridge import ForkedBridge
from tests.wires.camellia_service import StandIn
from tests.wires.jobs import Caller, Json, exchange_with_expect, lines_of


class Youzan(Caller):
    async def run(self, command: str, **members: Any) -> Json:
        return await self.post("/youzan", command=command, **members)

    async def add(self, job_id: str, body: Any = "x", *, delay: int = 1, ttr: int = 60, topic: str = "a") -> None:
        job_id = f"{self.name}-{job_id}"
        answer = await self.run("add", topic=f"{self.name}.{topic}", id=job_id, delay=delay, TTR=ttr, body=body)
        assert answer == {"success": True, "error": None, "id": job_id, "value": None}

    async def pop(self, topic: str = "a", *, wait_s: int = 60) -> tuple[str | None, str | None]:
        answer = await self.run("pop", topic=f"{self.name}.{topic}", timeout=wait_s)
        assert (answer["success"], answer["error"]) == (True, None)
        return answer["id"] and answer["id"].removeprefix(f"{self.name}-"), answer["value"]

    async def end(self, how: str, job_id: str) -> None:
        job_id = f"{self.name}-{job_id}"
        assert await self.run(how, id=job_id) == {"success": True, "error": None, "id": job_id, "value": None}

    async def state(self, job_id: str) -> str:
        answer = await self.run("state", id=f"{self.name}-{job_id}")
        assert answer["success"], answer
        state: str = answer["value"]
        return state


@pytest_asyncio.fixture
async def wire(bridge: ForkedBridge) -> AsyncIterator[Youzan]:
    async with httpx2.AsyncClient(base_url=bridge.url, timeout=90) as client:
        yield Youzan(bridge.port, client)


class TestRequests:
    @pytest.mark.parametrize(("path", "ttr"), [("/", "TTR"), ("/youzan", "ttr")])
    async def test_a_job_is_answered_byte_for_byte(self, wire: Youzan, path: str, ttr: str) -> None:
        name = wire.name
        add = f'{{"command":"add","topic":"{name}","id":"{name}-1","delay":0,"{ttr}":60,"body":"a<b"}}'
        added = await wire.raw(f"POST {path}", add)
        assert (added.status, added.headers["content-type"]) == (200, "application/json")
        assert added.text == f'{{"success":true,"error":null,"id":"{name}-1","value":null}}'
        popped = await wire.raw(f"POST {path}", f'{{"command":"pop","topic":"{name}","timeout":60}}')
        assert popped.text == f'{{"success":true,"error":null,"id":"{name}-1","value":"a\\u003cb"}}'
        for command in ("finish", "delete"):
            ended = await wire.raw(f"POST {path}", f'{{"command":"{command}","id":"{name}-1"}}')
            assert ended.text == f'{{"success":true,"error":null,"id":"{name}-1","value":null}}'
        nothing = await wire.raw(f"POST {path}", f'{{"command":"pop","topic":"{name}"}}')
        assert nothing.text == '{"success":true,"error":null,"id":null,"value":null}'

    @pytest.mark.parametrize(
        ("body", "error"),
        [
            ("", "unexpected end of JSON input"),
            ("{", "unexpected end of JSON input"),
            ("{'command':'add'}", r"invalid character '\'' looking for beginning of object key string"),
            ("[]", "json: cannot unmarshal array into Go value of type command"),
            ("{}", "command: must be one of add, pop, finish, delete, state"),
            ('{"command":"push"}', "command: must be one of add, pop, finish, delete, state"),
            ('{"command":1}', "json: cannot unmarshal number into Go struct field command.command of type string"),
            ('{"command":"add"}', "topic: is required and must not be empty"),
            ('{"command":"add","topic":"t"}', "id: is required and must not be empty"),
            ('{"command":"add","topic":"t","id":"1","delay":-1}', "delay: must be 0 to 86313600 seconds"),
            ('{"command":"add","topic":"t","id":"1","delay":86313601}', "delay: must be 0 to 86313600 seconds"),
            ('{"command":"add","topic":"t","id":"1","TTR":0}', "ttr: must be 1 to 86313600 seconds"),
            (
                '{"command":"add","topic":"t","id":"1","delay":1.5}',
                "json: cannot unmarshal number 1.5 into Go struct field command.delay of type int64",
            ),
            ('{"command":"pop"}', "topic: is required and must not be empty"),
            ('{"command":"pop","topic":"t","timeout":3601}', "timeout: must be 0 to 3600 seconds"),
            ('{"command":"finish"}', "id: is required and must not be empty"),
            ('{"command":"delete","id":""}', "id: is required and must not be empty"),
            ('{"command":"state","id":"nobody"}', "there is no job 'nobody'"),
        ],
    )
    async def test_an_invalid_command_is_refused(self, wire: Youzan, body: str, error: str) -> None:
        answer = await wire.raw("POST /youzan", body, {"Content-Type": "application/x-www-form-urlencoded"})
        assert answer.status == 200
        assert answer.json == {"success": False, "error": error, "id": None, "value": None}

    async def test_a_body_over_the_limit_is_refused(self, wire: Youzan) -> None:
        answer = await wire.run("add", topic=wire.name, id=wire.name, body="x" * (1024 * 1024 + 1))
        assert (answer["success"], answer["error"]) == (False, "body: must have at most 1048576 bytes")

    @pytest.mark.parametrize("levels", [500, 5_000])
    async def test_a_body_nested_too_deeply_is_refused(self, wire: Youzan, levels: int) -> None:
        deep = "[" * levels + "]" * levels
        answer = await wire.raw("POST /youzan", f'{{"command":"add","topic":"t","id":"1","body":{deep}}}')
        assert answer.json["error"] == "exceeded max depth"

    @pytest.mark.parametrize("request_line", ["GET /youzan", "PUT /", "POST /youzan/x"])
    async def test_other_paths_and_verbs_belong_to_the_bridge(self, wire: Youzan, request_line: str) -> None:
        answer = await wire.raw(request_line)
        assert answer.status in (404, 405)
        assert answer.headers["content-type"] == "application/problem+json"

    async def test_expect_100_continue_is_answered(self, wire: Youzan) -> None:
        interim, answer = await exchange_with_expect(wire.port, "/", b'{"command":"finish","id":"nobody"}')
        assert interim.startswith(b"HTTP/1.1 100 Continue\r\n")
        assert answer.startswith(b"HTTP/1.1 200 OK\r\n")

    @pytest.mark.parametrize(
        ("body", "value"),
        [
            ("plain", "plain"),
            ({"a": [1, {"b": None}], "c": True}, '{"a":[1,{"b":null}],"c":true}'),
            ([], "[]"),
            (7, "7"),
            (False, "false"),
            ("", ""),
        ],
    )
    async def test_a_body_is_popped_as_its_text(self, wire: Youzan, body: Any, value: str) -> None:
        await wire.add("1", body, delay=0)
        assert await wire.pop() == ("1", value)


class TestLife:
    async def test_a_job_goes_through_its_states(self, wire: Youzan) -> None:
        await wire.add("1", delay=600)
        assert await wire.state("1") == "delay"
        began_s = time.time()
        await wire.add("1", ttr=1)  # in the place of the first
        await wire.topic().until_state(f"{wire.name}-1", "ready")
        assert await wire.state("1") == "ready"
        assert time.time() >= began_s + 1 - AHEAD_MS / 1_000  # the record is ready so much before the message
        for _ in range(5):
            assert await wire.pop() == ("1", "x")
        assert await wire.state("1") in ("reserved", "ready")
        await wire.end("finish", "1")
        assert await wire.state("1") == "deleted"
        assert await wire.pop(wait_s=2) == (None, None)

    async def test_a_popped_job_is_reserved(self, wire: Youzan) -> None:
        await wire.add("1", delay=0)
        assert await wire.pop() == ("1", "x")
        assert await wire.state("1") == "reserved"

    async def test_delete_before_due_is_final(self, wire: Youzan) -> None:
        await wire.add("1")
        await wire.end("delete", "1")
        assert await wire.state("1") == "deleted"
        assert await wire.pop(wait_s=3) == (None, None)
        assert await wire.topic().state(f"{wire.name}-1") == "deleted"

    async def test_an_add_of_a_living_id_replaces_the_job_and_its_topic(self, wire: Youzan) -> None:
        await wire.add("1", "old", delay=0)
        assert await wire.pop() == ("1", "old")
        await wire.add("1", "new", delay=600, topic="b")
        assert await wire.state("1") == "delay"
        await wire.add("1", "newer", topic="b")
        assert await wire.pop("b") == ("1", "newer")
        assert await wire.topic("a").state(f"{wire.name}-1") == "deleted"

    async def test_ouqiangs_wire_knows_the_same_ids(self, wire: Youzan) -> None:
        await wire.add("1", delay=600)
        looked = (await wire.post("/get", id=f"{wire.name}-1"))["data"]
        assert looked["topic"] == f"{wire.name}.a"
        await wire.post("/finish", id=f"{wire.name}-1")
        assert await wire.state("1") == "deleted"

    async def test_each_waiting_pop_gets_another_job(self, wire: Youzan) -> None:
        popping = [asyncio.create_task(wire.pop()) for _ in range(5)]
        await asyncio.gather(*(wire.add(str(number)) for number in range(5)))
        assert sorted(await asyncio.gather(*popping)) == [(str(number), "x") for number in range(5)]
        assert await wire.pop(wait_s=0) == (None, None)

    async def test_the_documented_script_prints_the_life_of_an_order(self, wire: Youzan) -> None:
        printed = await lines_of("youzan.sh", YOUZAN_API=f"http://127.0.0.1:{wire.port}/youzan", TOPIC=wire.name)
        added, waits, first, taken, second, finished, gone, added_2, deleted, nothing = printed
        assert {answer["success"] for answer in printed} == {True}
        assert added["id"] == finished["id"] == f"{wire.name}-1001"
        assert added_2["id"] == deleted["id"] == f"{wire.name}-1002"
        assert [answer["value"] for answer in (first, second)] == ['{"order":1001}'] * 2
        assert (waits["value"], gone["value"]) == ("delay", "deleted")
        assert taken["value"] in ("reserved", "ready")
        assert (nothing["id"], nothing["value"]) == (None, None)


@pytest.mark.parametrize(
    ("setting", "path", "status"),
    [
        ("youzan", "/youzan", 404),
        ("youzan", "/", 405),  # a browser may GET it
        ("ouqiang", "/push", 404),
        ("changsongl", "/topic/t/job", 404),
    ],
)
async def test_a_setting_switches_a_wire_off(setting: str, path: str, status: int) -> None:
    standing = StandIn()
    standing.settings = Settings(lmstfy=False).model_copy(update={setting: False})
    transport = httpx2.ASGITransport(create_app(standing.service))
    async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
        assert (await client.post(path, json={})).status_code == status
        others = (
            {"/youzan", "/", "/push", "/topic/t/job"} - {path} - ({"/youzan", "/"} if setting == "youzan" else set())
        )
        assert {(await client.post(other, json={})).status_code for other in others} == {200}
