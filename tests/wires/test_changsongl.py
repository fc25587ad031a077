"""Tests changsongl/delay-queue's wire over a socket: literal requests and answers, and the life of jobs.

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

from tests.forked_bridge import ForkedBridge
from tests.wires.jobs import Caller, Json, exchange_with_expect, lines_of

OK = {"message": "ok", "success": True}
EXISTS = {"message": "job is exists", "success": False}
UNKNOWN = {"message": "job is not exists", "success": False}
JSON = "application/json; charset=utf-8"


class Changsongl(Caller):
    @property
    def jobs(self) -> str:
        return f"/topic/{self.name}.a/job"

    async def ask(self, method: str, rest: str = "", **members: Any) -> Json:
        answer = await self.client.request(method, self.jobs + rest, json=members or None)
        assert (answer.status_code, answer.headers["content-type"]) == (200, JSON)
        content: Json = answer.json()
        return content

    async def add(self, job_id: str, body: str = "x", *, delay: int = 1, ttr: int = 60, **more: Any) -> Json:
        return await self.ask("POST", id=job_id, delay=delay, ttr=ttr, body=body, **more)

    async def pop(self, wait_s: int = 60) -> tuple[str, str] | None:
        answer = await self.ask("GET", f"?timeout={wait_s}")
        assert (answer["success"], answer["message"]) == (True, "ok")
        return answer["data"] and (answer["data"]["id"], answer["data"]["body"])

    async def finish(self, job_id: str) -> Json:
        return await self.ask("PUT", f"/{job_id}")

    async def delete(self, job_id: str) -> Json:
        return await self.ask("DELETE", f"/{job_id}")


@pytest_asyncio.fixture
async def wire(bridge: ForkedBridge) -> AsyncIterator[Changsongl]:
    async with httpx2.AsyncClient(base_url=bridge.url, timeout=90) as client:
        yield Changsongl(bridge.port, client)


def failed(field: str, tag: str) -> str:
    return f"Key: '{field}' Error:Field validation for '{field.rpartition('.')[2]}' failed on the '{tag}' tag"


class TestRequests:
    async def test_a_job_is_answered_byte_for_byte(self, wire: Changsongl) -> None:
        added = await wire.raw(f"POST {wire.jobs}", '{"id": "myid1","delay":0, "ttr":4, "body":"a<b"}')
        assert (added.status, added.headers["content-type"]) == (200, JSON)
        assert added.text == '{"message":"ok","success":true}'
        popped = await wire.raw(f"GET {wire.jobs}?timeout=60")
        assert popped.text == (
            f'{{"data":{{"body":"a\\u003cb","delay":0,"id":"myid1","topic":"{wire.name}.a","ttr":4}},'
            '"message":"ok","success":true}'
        )
        finished = await wire.raw(f"PUT {wire.jobs}/myid1")
        assert finished.text == '{"message":"ok","success":true}'
        for request in (f"PUT {wire.jobs}/myid1", f"DELETE {wire.jobs}/myid1"):
            assert (await wire.raw(request)).text == '{"message":"job is not exists","success":false}'
        for query in ("", "?timeout=", "?timeout=0", "?timeout=00"):
            nothing = await wire.raw(f"GET {wire.jobs}{query}")
            assert nothing.text == '{"data":null,"message":"ok","success":true}'
        pong = await wire.raw("GET /ping")
        assert (pong.text, pong.headers["content-type"]) == ('{"message":"pong","success":true}', JSON)

    @pytest.mark.parametrize(
        ("body", "message"),
        [
            ("", "EOF"),
            (" \n", "EOF"),
            ("{", "unexpected EOF"),
            ('{"id":"a', "unexpected EOF"),
            ("id=a", "invalid character 'i' looking for beginning of value"),
            ("{id}", "invalid character 'i' looking for beginning of object key string"),
            ('{"id" "a"}', "invalid character '\"' after object key"),
            ('{"id":"a" "delay":1}', "invalid character '\"' after object key:value pair"),
            ("[]", "json: cannot unmarshal array into Go value of type action.addParam"),
            ("{}", failed("addParam.idParam.ID", "required")),
            ("null", failed("addParam.idParam.ID", "required")),
            ('{"id":""}', failed("addParam.idParam.ID", "required")),
            (f'{{"id":"{"i" * 201}"}}', failed("addParam.idParam.ID", "max")),
            ('{"id":1}', "json: cannot unmarshal number into Go struct field addParam.id of type job.ID"),
            *[
                (
                    f'{{"id":"a","delay":{delay}}}',
                    f"json: cannot unmarshal {what} into Go struct field addParam.delay of type uint",
                )
                for delay, what in (
                    ("-1", "number -1"),
                    ("1.5", "number 1.5"),
                    ("18446744073709551616", "number 18446744073709551616"),
                    ('"1"', "string"),
                )
            ],
            (
                '{"id":"a","body":{}}',
                "json: cannot unmarshal object into Go struct field addParam.body of type job.Body",
            ),
            (
                '{"id":"a","override":"yes"}',
                "json: cannot unmarshal string into Go struct field addParam.override of type bool",
            ),
        ],
    )
    async def test_an_invalid_body_is_refused_with_gins_text(self, wire: Changsongl, body: str, message: str) -> None:
        answer = await wire.raw(f"POST {wire.jobs}", body, {"Content-Type": "application/x-www-form-urlencoded"})
        assert answer.status == 200
        assert answer.json == {"message": f"body invalid: {message}", "success": False}

    @pytest.mark.parametrize(
        ("request_line", "fields"),
        [
            (f"POST /topic/{'t' * 51}/job", [("topicParam.Topic", "max")]),
            (f"GET /topic/{'t' * 51}/job", [("topicParam.Topic", "max")]),
            ("POST /topic//job", [("topicParam.Topic", "required")]),
            (f"PUT /topic/t/job/{'i' * 201}", [("idTopicParam.idParam.ID", "max")]),
            (
                f"DELETE /topic/{'t' * 51}/job/{'i' * 201}",
                [("idTopicParam.idParam.ID", "max"), ("idTopicParam.topicParam.Topic", "max")],
            ),
        ],
    )
    async def test_a_name_too_long_or_missing_is_refused(
        self, wire: Changsongl, request_line: str, fields: list[tuple[str, str]]
    ) -> None:
        message = "\n".join(failed(*field) for field in fields)
        assert (await wire.raw(request_line)).json == {"message": f"uri invalid: {message}", "success": False}

    @pytest.mark.parametrize("given", ["x", "-1", "%2B1", "1.5", "1s"])
    async def test_a_malformed_timeout_is_refused(self, wire: Changsongl, given: str) -> None:
        answer = await wire.raw(f"GET {wire.jobs}?timeout={given}")
        shown = given.replace("%2B", "+")
        message = f'query invalid: strconv.ParseUint: parsing "{shown}": invalid syntax'
        assert answer.json == {"message": message, "success": False}

    @pytest.mark.parametrize(
        "request_line",
        ["GET /topic/t", "PUT /topic/t/job", "POST /topic/t/job/a", "GET /topic/a%2Fb/job", "PATCH /topic/t/job/a"],
    )
    async def test_an_unknown_path_is_gins_404(self, wire: Changsongl, request_line: str) -> None:
        answer = await wire.raw(request_line)
        assert (answer.status, answer.headers["content-type"], answer.body) == (
            404,
            "text/plain",
            b"404 page not found",
        )

    @pytest.mark.parametrize(("verb", "status"), [("GET", 301), ("POST", 307)])
    async def test_a_superfluous_slash_is_redirected(self, wire: Changsongl, verb: str, status: int) -> None:
        answer = await wire.raw(f"{verb} {wire.jobs}/?timeout=1")
        assert (answer.status, answer.headers["location"]) == (status, f"{wire.jobs}?timeout=1")

    async def test_the_longest_names_and_any_characters_are_accepted(self, wire: Changsongl) -> None:
        topic, job_id = "订单_" + wire.name[-12:] + "_" + "长" * 34, "单_" + "i" * 198
        path = f"/topic/{topic}/job"
        added = await wire.client.post(path, json={"id": job_id, "delay": 0, "ttr": 60, "body": "x"})
        assert added.json() == OK
        popped = (await wire.client.get(f"{path}?timeout=60")).json()["data"]
        assert (popped["topic"], popped["id"]) == (topic, job_id)
        assert (await wire.client.put(f"{path}/{job_id}")).json() == OK

    async def test_text_behind_the_json_is_ignored(self, wire: Changsongl) -> None:
        assert (await wire.raw(f"POST {wire.jobs}", '{"ID":"a","Delay":600} and more')).json == OK

    @pytest.mark.parametrize(
        ("member", "value"), [("body", "x" * (1024 * 1024 + 1)), ("delay", 86_313_601), ("delay", 2**64 - 1)]
    )
    async def test_a_value_over_the_bridges_limit_is_refused(
        self, wire: Changsongl, member: str, value: object
    ) -> None:
        answer = (await wire.client.post(wire.jobs, json={"id": "a", member: value})).json()
        assert (answer["success"], answer["message"].partition(":")[0]) == (False, member)

    async def test_expect_100_continue_is_answered(self, wire: Changsongl) -> None:
        interim, answer = await exchange_with_expect(wire.port, wire.jobs, b'{"id":"a","delay":600,"ttr":1}')
        assert interim.startswith(b"HTTP/1.1 100 Continue\r\n")
        assert answer.endswith(b'{"message":"ok","success":true}')


class TestLife:
    async def test_a_job_is_never_early_and_wakes_a_waiting_pop(self, wire: Changsongl) -> None:
        popping = asyncio.create_task(wire.pop())
        began_s = time.time()
        assert await wire.add("1", "hello") == OK
        assert await popping == ("1", "hello")
        assert time.time() >= began_s + 1

    async def test_an_unfinished_job_is_redelivered_after_each_ttr(self, wire: Changsongl) -> None:
        await wire.add("1", ttr=1, delay=0)
        for _ in range(5):
            assert await wire.pop() == ("1", "x")
        assert await wire.finish("1") == OK
        assert await wire.pop(wait_s=3) is None
        assert await wire.topic().state("1") == "acked"

    async def test_a_job_with_a_ttr_of_zero_is_delivered_once_and_may_be_finished(self, wire: Changsongl) -> None:
        await wire.add("1", ttr=0, delay=0)
        assert await wire.pop() == ("1", "x")
        assert await wire.topic().state("1") == "acked"
        assert await wire.finish("1") == OK
        assert await wire.add("1", ttr=0, delay=600) == OK  # the id is free

    async def test_an_add_of_a_living_id_is_refused(self, wire: Changsongl) -> None:
        assert await wire.add("1", "first", delay=0) == OK
        assert await wire.add("1", "second") == EXISTS
        assert await wire.pop() == ("1", "first")
        assert await wire.add("1", "third") == EXISTS
        assert await wire.finish("1") == OK
        assert await wire.add("1", "fourth", delay=0) == OK
        assert await wire.pop() == ("1", "fourth")

    async def test_an_override_replaces_an_existing_job(self, wire: Changsongl) -> None:
        assert await wire.add("1", override=True) == UNKNOWN
        assert await wire.add("1", "old", delay=600) == OK
        assert await wire.add("1", "new", delay=1, ttr=7, override=True) == OK
        answer = await wire.ask("GET", "?timeout=60")
        assert answer["data"] == {"topic": f"{wire.name}.a", "id": "1", "body": "new", "delay": 1, "ttr": 7}
        assert await wire.add("1", "newer", delay=1, override=True) == OK
        assert await wire.pop() == ("1", "newer")
        assert await wire.finish("1") == OK
        assert await wire.pop(wait_s=2) is None
        assert await wire.add("1", override=True) == UNKNOWN

    async def test_delete_before_due_is_final(self, wire: Changsongl) -> None:
        await wire.add("1")
        assert await wire.delete("1") == OK
        assert await wire.delete("1") == UNKNOWN
        assert await wire.pop(wait_s=3) is None

    async def test_each_topic_has_its_own_ids(self, wire: Changsongl) -> None:
        other = Changsongl(wire.port, wire.client)
        assert await wire.add("1", "here", delay=0) == OK
        assert await other.add("1", "there", delay=0) == OK
        assert await other.delete("1") == OK
        assert await wire.pop() == ("1", "here")

    async def test_concurrent_pops_never_get_the_same_job(self, wire: Changsongl) -> None:
        popping = [asyncio.create_task(wire.pop()) for _ in range(10)]
        await asyncio.gather(*(wire.add(str(number)) for number in range(10)))
        popped = [job for job in await asyncio.gather(*popping) if job is not None]
        assert sorted(int(job_id) for job_id, _ in popped) == list(range(10))

    async def test_another_wires_message_can_be_popped_and_finished(self, wire: Changsongl) -> None:
        await wire.topic().send({"order": 1}, id="1")
        answer = await wire.ask("GET", "?timeout=60")
        assert answer["data"] == {"topic": f"{wire.name}.a", "id": "1", "body": '{"order":1}', "delay": 0, "ttr": 0}
        assert await wire.topic().state("1") == "leased"
        assert await wire.finish("1") == OK

    async def test_the_documented_script_prints_the_life_of_an_order(self, wire: Changsongl) -> None:
        printed = await lines_of("changsongl.sh", CHANGSONGL_API=f"http://127.0.0.1:{wire.port}", TOPIC=wire.name)
        added, again, overridden, first, second, finished, unknown, added_2, deleted, nothing = printed
        assert added == overridden == finished == added_2 == deleted == OK
        assert (again, unknown) == (EXISTS, UNKNOWN)
        assert first == second
        assert first["data"] == {"id": "1001", "topic": wire.name, "body": '{"order": 1001}', "delay": 2, "ttr": 1}
        assert nothing == {**OK, "data": None}
