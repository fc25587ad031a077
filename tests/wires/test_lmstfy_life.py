"""Tests the life of jobs over lmstfy's wire, on a running bridge, RabbitMQ and Redis.

No test sleeps: each waits in consumes with a timeout, which end when a job is ready.
"""

from __future__ import annotations

import asyncio
import json
import os
from base64 import b64decode
from uuid import uuid4

import httpx2
import pytest
from ulid import ULID

from tests.docs.documents import PROJECT
from tests.wires.lmstfy import PASSWORD, USER, Lmstfy, Queue, ask

_WAIT = "timeout=30&ttr=60"
_SHORT = "timeout=30&ttr=1"


async def until_dead(queue: Queue, count: int = 1) -> str:
    """Waits for `count` dead letters. Returns the id of the oldest. Consumes of an idle queue pace the loop.

    A letter in a new queue is shown before its record says so.
    """
    listed = f"GET /v1/namespaces/{queue.namespace}/topics/{queue.name}/dead"
    async with asyncio.timeout(60):
        while len((await ask(queue.lmstfy.own_port, listed)).json["items"]) < count:
            assert (await queue.idle()).status == 404
    size, head = await queue.dead_letters()
    assert size >= count
    return head


class TestTime:
    async def test_a_job_is_never_early_and_its_id_contains_its_delay(self, queue: Queue) -> None:
        job_id = await queue.publish(query="delay=2")
        assert await queue.is_empty()
        job = await queue.consume(_WAIT)
        assert (job["job_id"], b64decode(job["data"])) == (job_id, b"hello")
        assert job["elapsed_ms"] >= 2_000
        assert int.from_bytes(ULID.from_str(job_id).bytes[-4:], "little") == 2

    async def test_the_ttl_counts_from_the_publish(self, queue: Queue) -> None:
        await queue.publish(query="delay=2&ttl=100")
        job = await queue.consume(_WAIT)
        assert 0 < job["ttl"] <= 98

    async def test_a_job_that_expires_after_a_delivery_is_not_dead_lettered(self, queue: Queue) -> None:
        job_id = await queue.publish(query="ttl=100&tries=1")
        assert (await queue.consume(_SHORT))["job_id"] == job_id  # its TTR ends before its TTL
        other_id = await queue.publish(query="ttl=4&tries=5")
        assert (await queue.consume("timeout=30&ttr=5"))["job_id"] == other_id  # its TTL ends before its TTR
        assert (await queue.ask("GET", "?timeout=6")).status == 404
        assert await until_dead(queue) == job_id
        assert await queue.dead_letters() == (1, job_id)
        assert (await queue.peek(other_id)).status == 404

    async def test_an_unconsumed_job_expires(self, queue: Queue) -> None:
        job_id = await queue.publish(query="ttl=1&delay=1")
        assert (await queue.ask("GET", "?timeout=3")).status == 404
        assert (await queue.peek(job_id)).status == 404
        assert (await queue.dead_letters(), await queue.size()) == ((0, ""), 0)


class TestTries:
    async def test_a_job_is_dead_lettered_after_its_tries(self, queue: Queue) -> None:
        job_id = await queue.publish(query="tries=2&ttl=100")
        assert (await queue.consume(_SHORT))["remain_tries"] == 1
        assert (await queue.consume(_SHORT))["remain_tries"] == 0
        assert await until_dead(queue) == job_id
        assert [await queue.dead_letters() for _ in range(20)] == [(1, job_id)] * 20  # a look hides no letter
        shown = (await queue.peek(job_id)).json
        assert (shown["ttl"], b64decode(shown["data"])) == (0, b"hello")  # dead letters never expire
        assert await queue.is_empty()

    async def test_a_consume_with_freeze_tries_counts_no_try(self, queue: Queue) -> None:
        await queue.publish(query="tries=1")
        for _ in range(2):
            assert (await queue.consume(_SHORT + "&freeze_tries=true"))["remain_tries"] == 1
        assert (await queue.consume(_WAIT))["remain_tries"] == 0

    async def test_a_ttr_of_zero_expires_at_once(self, queue: Queue) -> None:
        job_id = await queue.publish(query="tries=2")
        assert (await queue.consume("ttr=0&timeout=30"))["job_id"] == job_id
        assert (await queue.consume(_WAIT))["job_id"] == job_id


class TestAck:
    async def test_an_acknowledged_job_is_not_redelivered(self, queue: Queue) -> None:
        job_id = await queue.publish(query="tries=5")
        await queue.consume(_SHORT)
        await queue.ack(job_id)
        assert (await queue.ask("GET", "?timeout=2")).status == 404
        assert (await queue.peek(job_id)).status == 404

    async def test_an_ack_after_the_ttr_ends_a_job_that_is_ready_again(self, queue: Queue) -> None:
        job_id = await queue.publish(query="tries=5")
        await queue.consume(_SHORT)
        other_id = await queue.publish(query="tries=1&delay=2")  # due when the TTR has ended
        while (await queue.ask("GET", "/peek")).status == 404:
            assert (await queue.idle()).status == 404
        await queue.ack(job_id)
        assert (await queue.consume(_WAIT))["job_id"] == other_id

    async def test_delete_before_due_is_final_and_changes_the_size(self, queue: Queue) -> None:
        job_id = await queue.publish(query="delay=1")
        ready_id = await queue.publish()
        await queue.ack(job_id)
        await queue.ack(ready_id)
        assert await queue.size() == 0
        assert (await queue.ask("GET", "?timeout=2")).status == 404

    async def test_a_dead_letter_can_be_deleted_by_its_id(self, queue: Queue) -> None:
        job_id = await queue.publish()
        await queue.consume(_SHORT)
        assert await until_dead(queue) == job_id
        await queue.ack(job_id)
        assert await queue.dead_letters() == (0, "")

    async def test_a_job_of_another_queue_is_not_changed(self, queue: Queue) -> None:
        job_id = await queue.publish()
        other = Queue(queue.lmstfy, queue.namespace, "other", queue.token)
        await other.ack(job_id)
        assert (await queue.peek(job_id)).status == 200

    async def test_a_republish_replaces_a_job_with_a_new_one(self, queue: Queue) -> None:
        job_id = await queue.publish(query="tries=5")
        await queue.consume(_SHORT)
        refused = await queue.ask("PUT", f"/job/{job_id}?tries=0", b"again")
        assert refused.status == 400
        assert (await queue.peek(job_id)).status == 200  # the refused republish has deleted nothing
        new_id = (await queue.ask("PUT", f"/job/{job_id}?delay=1", b"again")).json["job_id"]
        job = await queue.consume(_WAIT)
        assert (job["job_id"], b64decode(job["data"])) == (new_id, b"again")
        assert await queue.is_empty()


class TestOrder:
    async def test_jobs_are_consumed_first_in_first_out(self, queue: Queue) -> None:
        ids = (await queue.ask("PUT", "/bulk", b"[" + b",".join(b"%d" % n for n in range(64)) + b"]")).json["job_ids"]
        got = [job["job_id"] for job in await queue.consume("count=20&timeout=30")]
        # So few consumes that the bridge takes no messages for further ones. It could not put these back in order.
        got.append((await queue.consume(_WAIT))["job_id"])
        got += [job["job_id"] for job in await queue.consume("count=100&timeout=30")]
        assert got == ids

    async def test_a_redelivered_job_is_behind_newer_jobs(self, queue: Queue) -> None:
        first = await queue.publish(b"first", "tries=2")
        await queue.consume("timeout=30&ttr=3")
        second = await queue.publish(b"second")
        assert (await queue.ask("GET", "/peek")).json["job_id"] == second
        while await queue.size() < 2:
            assert (await queue.idle()).status == 404
        assert (await queue.ask("GET", "/peek")).json["job_id"] == second
        assert [(await queue.consume(_WAIT))["job_id"] for _ in range(2)] == [second, first]

    async def test_queues_are_consumed_in_the_order_of_the_request(self, queue: Queue) -> None:
        urgent, normal = (Queue(queue.lmstfy, queue.namespace, name, queue.token) for name in ("urgent", "normal"))
        ids = [await normal.publish(), await urgent.publish(), await urgent.publish()]
        both = Queue(queue.lmstfy, queue.namespace, "urgent,,normal,urgent", queue.token)
        jobs = await both.consume("count=3&timeout=30")
        assert [(job["queue"], job["job_id"]) for job in jobs] == [
            ("urgent", ids[1]),
            ("urgent", ids[2]),
            ("normal", ids[0]),
        ]

    async def test_a_consume_of_several_queues_is_woken_by_any_of_them(self, queue: Queue) -> None:
        both = Queue(queue.lmstfy, queue.namespace, "first,orders", queue.token)
        waiting = asyncio.create_task(both.consume(_WAIT))
        job_id = await queue.publish(query="delay=1")
        job = await waiting
        assert (job["queue"], job["job_id"]) == ("orders", job_id)


class TestAttributes:
    async def test_attributes_are_cut_and_in_lower_case(self, queue: Queue) -> None:
        headers = {
            "Enable-Job-Version": "Yes",
            "Job-Attr-User": "joe",
            f"Job-Attr-{'K' * 40}": "v" * 200,
            "Job-Attr-Empty": "",
        }
        job_id = await queue.publish(headers=headers)
        assert (len(job_id), job_id[0]) == (27, "1")
        wanted = {"user": "joe", "k" * 32: "v" * 128}
        assert (await queue.ask("GET", "/peek")).json["attributes"] == wanted
        assert (await queue.consume(_WAIT))["attributes"] == wanted

    async def test_without_the_job_version_attributes_are_ignored(self, queue: Queue) -> None:
        job_id = await queue.publish(headers={"Job-Attr-User": "joe"})
        assert len(job_id) == 26
        assert (await queue.consume(_WAIT))["attributes"] is None


class TestBodies:
    async def test_a_body_of_any_bytes_up_to_one_mebibyte_is_unchanged(self, queue: Queue) -> None:
        for body in (b"", bytes(range(256)), b"x" * 1024 * 1024):
            await queue.publish(body, headers={"Content-Type": "application/json"})
            assert b64decode((await queue.consume(_WAIT))["data"]) == body


class TestDeadLetters:
    async def test_respawned_jobs_are_ready_at_once_with_one_try_and_a_ttl(self, queue: Queue) -> None:
        ids = [await queue.publish(body, "tries=1") for body in (b"1", b"2", b"3")]
        for _ in ids:
            await queue.consume(_SHORT)
        # Their TTRs end within milliseconds, so their order is undefined.
        assert await until_dead(queue, 3) in ids
        assert (await queue.ask("PUT", "/deadletter?limit=2&ttl=50")).json == {"count": 2, "msg": "respawned"}
        left, head = await queue.dead_letters()
        assert left == 1
        assert (await queue.ask("DELETE", "/deadletter?limit=10")).status == 204
        job = await queue.consume(_SHORT)
        assert (job["job_id"] in set(ids) - {head}, job["remain_tries"]) == (True, 0)
        assert 0 < job["ttl"] <= 50
        await queue.consume(_WAIT)
        assert await until_dead(queue) == job["job_id"]

    async def test_a_respawn_with_ttl_zero_never_expires(self, queue: Queue) -> None:
        await queue.publish()
        await queue.consume(_SHORT)
        await until_dead(queue)
        assert (await queue.ask("PUT", "/deadletter?ttl=0")).json["count"] == 1
        assert (await queue.consume(_WAIT))["ttl"] == 0


class TestDestroy:
    async def test_destroy_deletes_only_ready_jobs(self, queue: Queue) -> None:
        leased = await queue.publish(query="tries=2")
        await queue.consume("timeout=30&ttr=4")
        delayed = await queue.publish(query="delay=6")
        ready = await queue.publish()
        assert (await queue.ask("DELETE")).status == 204
        assert (await queue.peek(ready)).status == 404
        assert [(await queue.consume(_WAIT))["job_id"] for _ in range(2)] == [leased, delayed]


class TestNames:
    async def test_names_of_255_bytes_work_and_are_listed_in_full(self, lmstfy: Lmstfy) -> None:
        namespace, name = uuid4().hex + "n" * 223, "q" * 254
        token = await lmstfy.token(namespace)
        queues = [Queue(lmstfy, namespace, name + end, token) for end in "ab"]
        ids = [await queue.publish(query="delay=1") for queue in queues]
        for queue, job_id in zip(queues, ids, strict=True):
            job = await queue.consume(_WAIT)
            assert (job["namespace"], job["queue"], job["job_id"]) == (namespace, queue.name, job_id)
        assert (await lmstfy.admin("GET /info")).json[namespace] == [queue.name for queue in queues]


class TestOtherWires:
    async def test_a_job_is_a_message_of_the_topic_and_a_message_a_job(self, queue: Queue) -> None:
        topic = f"/v1/namespaces/{queue.namespace}/topics/orders"
        job_id = await queue.publish(b"hello", "delay=100&tries=3")
        async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{queue.lmstfy.own_port}", timeout=60) as client:
            message = (await client.get(f"{topic}/messages/{job_id}")).json()
            assert (message["state"], message["max_retry"]) == ("waiting", 2)
            assert message["body_base64"] == "aGVsbG8="
            (await client.post(f"{topic}/messages", json={"id": "o-1", "body": 1})).raise_for_status()
        job = await queue.consume(_WAIT)
        assert (job["job_id"], b64decode(job["data"]), job["ttl"]) == ("o-1", b"1", 0)


class TestCrowd:
    @pytest.mark.timeout(400)
    async def test_jobs_of_60_namespaces_never_cross(self, lmstfy: Lmstfy) -> None:
        left = asyncio.Queue[int]()
        for number in range(60):
            left.put_nowait(number)
        wrong: list[object] = []

        async def client() -> int:
            served = 0
            before: Queue | None = None
            while not left.empty():
                queue = await lmstfy.queue(f"crowd-{left.get_nowait()}")
                job_id = await queue.publish(queue.namespace.encode(), "delay=1")
                job = await queue.consume(_WAIT)
                if (job["namespace"], job["job_id"], b64decode(job["data"]).decode()) != (
                    *(queue.namespace, job_id),
                    queue.namespace,
                ):
                    wrong.append(job)
                if before is not None:
                    crossed = await Queue(lmstfy, before.namespace, "orders", queue.token).ask("GET")
                    if (crossed.status, crossed.json) != (401, {"error": "invalid token"}):
                        wrong.append(crossed)
                before = queue
                served += 1
            return served

        assert sum(await asyncio.gather(*(client() for _ in range(20)))) == 60
        assert wrong == []


class TestDocumentation:
    async def test_the_documented_script_prints_the_life_of_an_order(self, lmstfy: Lmstfy) -> None:
        process = await asyncio.create_subprocess_exec(
            str(PROJECT / "docs" / "wires" / "lmstfy.sh"),
            env={
                **os.environ,
                "LMSTFY_API": f"http://127.0.0.1:{lmstfy.port}",
                "LMSTFY_ADMIN": f"http://127.0.0.1:{lmstfy.admin_port}",
                "LMSTFY_ACCOUNT": f"{USER}:{PASSWORD}",
            },
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        output, errors = await process.communicate()
        assert (process.returncode, errors) == (0, b"")
        printed = [line for line in output.decode().splitlines() if not line.endswith(":")]
        published, looked, first, second, acked, deleted, nothing = printed
        job_id = json.loads(published)["job_id"]
        shown = [json.loads(line) for line in (looked, first, second)]
        assert {job["job_id"] for job in shown} == {job_id}
        assert {b64decode(job["data"]) for job in shown} == {b'{"order": 1001}'}
        assert [job["remain_tries"] for job in shown[1:]] == [1, 0]
        assert (acked, deleted, json.loads(nothing)) == ("204", "204", {"msg": "no job available"})
